"""Database access: the interface to run functions of a connection, upserts, and the meaning of a database's errors.

An error is the caller's mistake, a conflict to retry, or `StoreUnavailable`.
"""

import errno
import sqlite3
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from aliquot.service.ports import DuplicateKey, StoreUnavailable

T = TypeVar("T")


class Runner(Protocol):
    """Runs functions of a connection; raises `StoreUnavailable` when the database fails."""

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a function that begins its own transactions."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a function that only reads."""


_UNIQUE = ("23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")
_CONFLICT = ("40001", "40P01")
"""PostgreSQL: serialization failure, deadlock."""
_NUL_IN_TEXT = "22021"
_UNAVAILABLE_CLASSES = ("08", "25", "28", "3D", "53", "55", "57", "58", "F0", "XX")
"""SQLSTATE classes: connection, transaction state, login, no such database, resources, state of an object, operator,
system, configuration, internal."""
_CLIENT_ERRORS = {"InternalClientError", "ClientConfigurationError"}
"""Errors of asyncpg when a connection breaks or an option is wrong, by name: a server on SQLite does not import it."""
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, nothing that was acknowledged is lost",
    sqlite3.SQLITE_READONLY: "the database is read-only; check the owner and the mode of its folder",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; stop the server and restore the newest backup",
    sqlite3.SQLITE_NOTADB: "the file is not a database of Aliquot; name another file, or restore a backup",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened; check that its folder exists and may be written",
    sqlite3.SQLITE_BUSY: "the database is locked by another program; close that program",
    sqlite3.SQLITE_IOERR: "the disk reported an error, or is full",
}
_OS_ADVICE = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
}
_FILE_ADVICE = {errno.EACCES: sqlite3.SQLITE_READONLY}
"""Only for errors that name a file: PostgreSQL's socket may fail with the same number."""


def upsert(connection: Connection, table: Table) -> Any:
    """An insert of the database's own dialect, which knows what to do about a row that exists."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    return sqlite.insert(table)


def is_conflict(error: BaseException) -> bool:
    """Whether the transaction conflicted with another one and can be retried unchanged."""
    return _code(error) in _CONFLICT


def is_nul_error(error: BaseException) -> bool:
    """Whether a text contained a NUL character, which PostgreSQL cannot store."""
    return _code(error) == _NUL_IN_TEXT


def rejection(error: Exception) -> Exception:
    """The error for the caller of a rejected batch."""
    if isinstance(error, IntegrityError) and _code(error) in _UNIQUE:
        return DuplicateKey(str(error.orig))
    return error


def unavailability(error: BaseException) -> StoreUnavailable | None:
    """The `StoreUnavailable` for a failure of the database; None for other errors."""
    if isinstance(error, StoreUnavailable):
        return error
    if isinstance(error, OSError) and (advice := _os_advice(error)) is not None:
        return StoreUnavailable(f"{_ADVICE[advice]} ({error})")
    if isinstance(error, OSError | TimeoutError):
        return StoreUnavailable(f"the database cannot be reached: {str(error) or type(error).__name__}")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _sqlite_unavailability(cause)
    broken = isinstance(error, DBAPIError) and error.connection_invalidated
    if (
        {type(cause).__name__, type(getattr(cause, "__cause__", None)).__name__} & _CLIENT_ERRORS
        or broken
        or isinstance(error, PoolTimeout)
        or _code(error)[:2] in _UNAVAILABLE_CLASSES
    ):
        return StoreUnavailable(f"the database cannot be used now: {cause}")
    return None


def damage(error: Exception) -> StoreUnavailable:
    """The `StoreUnavailable` for stored data that could not be understood: rows were changed by hand or by a disk."""
    reason = next(iter(str(error).splitlines()), "")[:200]
    return StoreUnavailable(
        f"the database holds data that cannot be read ({type(error).__name__}: {reason}); it is probably "
        "damaged. Check it with `aliquot db check`, and restore the newest backup with `aliquot db restore`. If the "
        "check finds nothing, report this as a fault of Aliquot"
    )


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
    """SQLSTATE of PostgreSQL or error name of SQLite; empty if the error has none."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
