"""SQLite: one writing connection in a thread of its own, and one that reads beside it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.pool import NullPool

from aliquot.service.ports import StoreUnavailable
from aliquot.store.faults import unavailability
from aliquot.store.locking import FileLock
from aliquot.store.migration import HEAD, check_current, migrate, stored_revision

T = TypeVar("T")

WAL_BYTES_MAX: Final = 64 * 2**20
"""Above this the log file is emptied even if a reader must be waited for."""
_WRITER_PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "busy_timeout = 5000",
    "wal_autocheckpoint = 4000",
    f"journal_size_limit = {WAL_BYTES_MAX}",
    "cache_size = -16384",
)
_READER_PRAGMAS: Final = ("query_only = 1", "busy_timeout = 5000")


def connect_writer(path: Path) -> Connection:
    """Open the file for writing, made if it is not there; a transaction takes the write lock when it begins."""
    return _connect(f"file:{quote(str(path))}", begin="BEGIN IMMEDIATE", pragmas=_WRITER_PRAGMAS)


def connect_reader(path: Path) -> Connection:
    """Open a file that has a writer, for reading; a transaction sees one snapshot."""
    return _connect(f"file:{quote(str(path))}?mode=ro", begin="BEGIN", pragmas=_READER_PRAGMAS)


class SqliteDatabase:
    """A `Database` in one file. Writes run in order in one thread, reads in another."""

    def __init__(self, path: Path, *, now_us: Callable[[], int], upgrades: bool = True) -> None:
        """With `upgrades` off, a file that is not there is not made, and one with an older schema is refused."""
        self._path = path
        self._upgrades = upgrades
        self._wal = path.with_name(f"{path.name}-wal")
        self._now_us = now_us
        self._lock: FileLock | None = None
        self._writer = ConnectionThread("store-writer", connect=self._open_writer)
        self._reader = ConnectionThread("store-reader", connect=lambda: connect_reader(path))

    async def open(self) -> None:
        try:
            if not self._upgrades and not self._path.exists():
                raise StoreUnavailable("there is no such file; name the data folder of a server, or its database")
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock.take(self._path.with_name(f"{self._path.name}.lock"))
            await self._writer.open()
            await self._reader.open()
        except Exception as error:
            if unavailable := unavailability(error):
                raise StoreUnavailable(f"{self._path}: {unavailable}") from error
            raise

    def copy_path(self, now_us: int) -> Path:
        """Where a copy that is made now goes."""
        return self._path.absolute().with_name(f"{self._path.name}.{now_us}.copy")

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._writer.run(partial(self._write, work=work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._reader.run(partial(_read, work=work))

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _open_writer(self) -> Connection:
        create_private(self._path)
        connection = connect_writer(self._path)
        try:
            self._upgrade(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _upgrade(self, connection: Connection) -> None:
        if not self._upgrades:
            check_current(connection)
            return
        with connection.begin():
            revision = stored_revision(connection)
        if revision not in (None, HEAD):
            back_up(connection, self._path.with_name(f"{self._path.name}.{revision}.{self._now_us()}.backup"))
        migrate(connection)

    def _write(self, connection: Connection, *, work: Callable[[Connection], T]) -> T:
        done = work(connection)
        if self._wal.stat().st_size > WAL_BYTES_MAX:
            # What was committed stays so if this fails; the next write tries it again.
            with suppress(sqlite3.OperationalError):
                _driver(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return done


def back_up(connection: Connection, path: Path) -> None:
    """Copy the database to a new file, as it is now."""
    create_private(path)
    with closing(sqlite3.connect(path)) as copy:
        _driver(connection).backup(copy)


class ConnectionThread:
    """A thread that makes one connection, owns it, and runs what is asked of it in order."""

    def __init__(self, name: str, *, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._name = name
        self._connection: Connection | None = None
        self._executor: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        await asyncio.get_running_loop().run_in_executor(self._executor, self._take_connection)

    async def run(self, work: Callable[[Connection], T]) -> T:
        if self._connection is None:
            raise StoreUnavailable("the database is not open")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, self._connection)

    async def close(self) -> None:
        if self._executor is None:
            return
        executor, self._executor = self._executor, None
        await asyncio.get_running_loop().run_in_executor(executor, self._close_connection)
        executor.shutdown()

    def _take_connection(self) -> None:
        # In the thread, so that `close` finds it even when nobody waited for `open` any more.
        self._connection = self._connect()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def create_private(path: Path) -> None:
    """Make the file before SQLite does, for its owner alone: sessions carry their environment."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection, for what cannot run in a transaction."""
    return cast(sqlite3.Connection, connection.connection.driver_connection)  # SQLAlchemy types it as Any | None


def _read(connection: Connection, *, work: Callable[[Connection], T]) -> T:
    with connection.begin():
        return work(connection)


def _connect(uri: str, *, begin: str, pragmas: Sequence[str]) -> Connection:
    def open_file() -> sqlite3.Connection:
        # Without an isolation level the driver starts no transaction by itself; `begin` does.
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=open_file, poolclass=NullPool)
    # Not by way of SQLAlchemy, which would take a fifth of a commit for it.
    event.listen(engine, "begin", lambda connection: _driver(connection).execute(begin))
    return engine.connect()
