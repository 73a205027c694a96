"""The file of history: SQLite, beside the embedded database and apart from it."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError

from aliquot.service.ports import StoreUnavailable
from aliquot.store.history.tables import make_tables
from aliquot.store.sqlite import connect_writer, create_private

T = TypeVar("T")

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class HistoryFile:
    """A `Database`, used by one thread, in which everything runs. A damaged file is put aside, and another begun; so it
    is where somebody deleted the file."""

    def __init__(self, path: Path, *, now_us: Callable[[], int]) -> None:
        self._path = path
        self._now_us = now_us
        self._connection: Connection | None = None
        self._inode = 0

    async def open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        create_private(self._path)
        try:
            self._connection = connect_writer(self._path)
            self._inode = self._path.stat().st_ino
            make_tables(self._connection)
        except BaseException as error:
            await self.close()
            if _is_damage(error):
                self._put_aside()
            raise

    async def write(self, work: Callable[[Connection], T]) -> T:
        assert self._connection is not None, "it is not open"
        if not self._is_there():
            raise StoreUnavailable(f"{self._path} was removed; another one is begun")
        try:
            return work(self._connection)
        except DatabaseError as error:
            if _is_damage(error):
                await self.close()
                self._put_aside()
            raise

    async def read(self, work: Callable[[Connection], T]) -> T:
        def read(connection: Connection) -> T:
            with connection.begin():
                return work(connection)

        return await self.write(read)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DatabaseError, sqlite3.Error):
                connection.close()

    def _is_there(self) -> bool:
        """Whether what is written is in the file of that name. SQLite would go on with one that has none any more."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _put_aside(self) -> None:
        for older in self._path.parent.glob(f"{self._path.name}.*.damaged*"):
            older.unlink(missing_ok=True)  # one is enough to look at: a disk that damages files would be filled by them
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._path.with_name(self._path.name + end).rename(
                    self._path.with_name(f"{self._path.name}.{self._now_us()}.damaged{end}")
                )


def _is_damage(error: BaseException) -> bool:
    cause = error.orig if isinstance(error, DatabaseError) else error
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
