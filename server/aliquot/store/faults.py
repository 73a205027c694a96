"""What a database's error means to a caller: his own mistake, a database that is away, or a conflict to try again."""

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from aliquot.service.ports import DuplicateKey, StoreUnavailable

_UNIQUE = ("23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")
_CONFLICT = ("40001", "40P01")
"""PostgreSQL: serialization failure, deadlock."""
_NO_TEXT = "22021"
_AWAY = ("08", "25", "28", "3D", "53", "57", "58", "F0", "XX")
"""PostgreSQL's classes: connection, read-only, login, no such database, resources, operator, system, configuration,
internal."""
_CONFUSED = ("InternalClientError",)
"""asyncpg's, by name as SQLite needs no asyncpg: the connection ended in the middle of something."""
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, nothing that was acknowledged is lost",
    sqlite3.SQLITE_READONLY: "the database can only be read; check the owner and the mode of its folder",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; stop the server and restore the newest backup beside it",
    sqlite3.SQLITE_NOTADB: "the file is no database of Aliquot; name another one, or restore a backup",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened; check that its folder exists and may be written",
    sqlite3.SQLITE_BUSY: "the database is locked by another program; close what has it open",
    sqlite3.SQLITE_IOERR: "the disk reported an error, or is full",
}


_OS_ADVICE = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
}
_FILE_ADVICE = {errno.EACCES: sqlite3.SQLITE_READONLY}
"""Where the error names a file: a socket of PostgreSQL may refuse for the same reason."""


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction only met another one, and can be tried again as it was."""
    return _code(error) in _CONFLICT


def is_no_text(error: BaseException) -> bool:
    """Whether something was asked for by a text with a NUL character, which PostgreSQL takes for none."""
    return _code(error) == _NO_TEXT


def rejection(error: Exception) -> Exception:
    """What the caller of a batch is told that the database refused."""
    if isinstance(error, IntegrityError) and _code(error) in _UNIQUE:
        return DuplicateKey(str(error.orig))
    return error


def unavailability(error: BaseException) -> StoreUnavailable | None:
    """Put the database's failure into words; None when the error is of another sort."""
    if isinstance(error, StoreUnavailable):
        return error
    if isinstance(error, OSError) and (advice := _os_advice(error)) is not None:
        return StoreUnavailable(f"{_ADVICE[advice]} ({error})")
    if isinstance(error, OSError | TimeoutError):
        return StoreUnavailable(f"the database cannot be reached: {error or type(error).__name__}")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _sqlite_unavailability(cause)
    broken = isinstance(error, DBAPIError) and error.connection_invalidated
    if type(cause).__name__ in _CONFUSED or broken or isinstance(error, PoolTimeout) or _code(error)[:2] in _AWAY:
        return StoreUnavailable(f"the database cannot be used now: {cause}")
    return None


def _os_advice(error: OSError) -> int | None:
    number = error.errno or 0
    return _OS_ADVICE.get(number) or (_FILE_ADVICE.get(number) if error.filename is not None else None)


def _sqlite_unavailability(cause: sqlite3.Error) -> StoreUnavailable | None:
    if isinstance(
        cause, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError | sqlite3.InterfaceError
    ):
        return None
    number = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if number == sqlite3.SQLITE_ERROR:
        return None
    return StoreUnavailable(f"{_ADVICE.get(number, 'the database cannot be used now')} ({cause})")


def _code(error: BaseException) -> str:
    """PostgreSQL's SQLSTATE or SQLite's error name; empty when the error has none."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
