"""SQLite engine: one writing and one reading connection, each with its own thread, and a lock file.

One server may use a database file. The kernel releases the lock when its holder ends.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar, cast
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.pool import NullPool

from aliquot.service.ports import StoreUnavailable
from aliquot.store.cluster_mark import MarkFile, flush_folder
from aliquot.store.engines.database import unavailability
from aliquot.store.migration import HEAD, check_current, migrate, stored_revision


class FileLock:
    """Exclusive lock on a file that holds the process id of its holder. The file remains after `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> Self:
        """Take the lock.

        Raises:
            StoreUnavailable: another process, named in the message, or another store of this process holds it.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StoreUnavailable(
                f"another server (process {holder or 'unknown'}) uses it; "
                "stop that server first, or use a data folder of its own for another one. "
                "To read this one meanwhile, use a copy made by `aliquot db copy`"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


T = TypeVar("T")

WAL_BYTES_MAX: Final = 64 * 2**20
"""Above this size the write-ahead log is truncated, which waits for readers."""
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
    """Open the file for writing, creating it if missing. A transaction takes the write lock when it begins."""
    return _connect(f"file:{quote(str(path))}", begin="BEGIN IMMEDIATE", pragmas=_WRITER_PRAGMAS)


def connect_reader(path: Path) -> Connection:
    """Open an existing file for reading, beside its writer. A transaction sees one snapshot."""
    return _connect(f"file:{quote(str(path))}?mode=ro", begin="BEGIN", pragmas=_READER_PRAGMAS)


class SqliteDatabase:
    """A `Database` in one file. Writes run in order in one thread, reads in another."""

    def __init__(
        self, path: Path, *, now_us: Callable[[], int], upgrades: bool = True, mark: MarkFile | None = None
    ) -> None:
        """The file is opened by `open`.

        Args:
            upgrades: off = reject a missing file or one with an older schema.
            mark: reject a file of another cluster, unchanged; None = accept any.
        """
        self._path = path
        self._mark = mark
        self._upgrades = upgrades
        self._wal = path.with_name(f"{path.name}-wal")
        self._now_us = now_us
        self._lock: FileLock | None = None
        self._writer = ConnectionThread("store-writer", connect=self._open_writer)
        self._reader = ConnectionThread("store-reader", connect=lambda: connect_reader(path))

    async def open(self) -> None:
        try:
            if not self._upgrades and not self._path.exists():
                raise StoreUnavailable("there is no such file; name the data folder or the database of a server")
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock.take(self._path.with_name(f"{self._path.name}.lock"))
            if self._mark is not None and not (self._path.exists() and self._path.stat().st_size):
                self._mark.check_empty()
            await self._writer.open()
            await self._reader.open()
        except Exception as error:
            if unavailable := unavailability(error):
                raise StoreUnavailable(f"{self._path}: {unavailable}") from error
            raise

    def copy_path(self, now_us: int) -> Path:
        """Path of a copy made at this time."""
        return self._path.absolute().with_name(f"{self._path.name}.{now_us}.copy")

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._writer.run(partial(self._write, work=work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._reader.run(partial(_read, work=work))

    async def read_apart(self, work: Callable[[Connection], T]) -> T:
        apart = ConnectionThread("store-long-reader", connect=lambda: connect_reader(self._path))
        await apart.open()
        try:
            return await apart.run(partial(_read, work=work))
        finally:
            await apart.close()

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
        if self._mark is not None:
            self._mark.check(connection)
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
            # A failure loses nothing; the next write retries.
            with suppress(sqlite3.OperationalError):
                _driver(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return done


def back_up(connection: Connection, path: Path) -> None:
    """Copy the database, as it is now, to a new file; after a failure there is none."""
    create_private(path)
    try:
        with closing(sqlite3.connect(path)) as copy:
            _driver(connection).backup(copy)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def restore_copy(copy: Path, *, path: Path, now_us: int) -> Path | None:
    """Replace a database that no server has open by a copy. The replaced file is kept under another name.

    Returns:
        Path of the replaced file; None if there was none.
    Raises:
        StoreUnavailable: the copy is damaged or not a database of Aliquot, or a server has the database open. Nothing
            was changed.
        OSError: a file cannot be read or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock.take(path.with_name(f"{path.name}.lock"))
    draft = path.with_name(f"{path.name}.{now_us}.draft")
    try:
        _copy_whole(copy, draft)
        kept = _move_aside(path, path.with_name(f"{path.name}.{now_us}.replaced"))
        draft.replace(path)
        flush_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)
        lock.release()
    return kept


def _copy_whole(copy: Path, draft: Path) -> None:
    """Copy a database file durably after checking that it is intact."""
    if not copy.exists():
        raise StoreUnavailable(f"{copy}: there is no such file")
    with closing(connect_reader(copy)) as connection:
        try:
            with connection.begin():
                is_empty = stored_revision(connection) is None
            found = _driver(connection).execute("PRAGMA quick_check(1)").fetchone()[0]
            if is_empty or found != "ok":
                raise StoreUnavailable("it is empty" if is_empty else f"it is damaged ({found}); take another backup")
            back_up(connection, draft)
        except Exception as error:
            if unavailable := unavailability(error):
                raise StoreUnavailable(f"{copy}: {unavailable}") from error
            raise
    with draft.open("rb") as file:
        os.fsync(file.fileno())


def _move_aside(path: Path, kept: Path) -> Path | None:
    """Rename a database with its write-ahead log, which holds its newest commits."""
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    found = False
    for ending in ("", "-wal"):
        # A log left behind would be applied to the copy.
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(kept.with_name(kept.name + ending))
            found = True
    return kept if found else None


class ConnectionThread:
    """A thread that owns one connection and runs functions of it in order."""

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
        # Assigned in the thread, so that `close` finds it even if `open` was cancelled.
        self._connection = self._connect()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def create_private(path: Path) -> None:
    """Create the file readable by its owner only, before SQLite does: sessions contain environment variables."""
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _driver(connection: Connection) -> sqlite3.Connection:
    """The driver's connection, for statements that cannot run in a transaction."""
    return cast(sqlite3.Connection, connection.connection.driver_connection)  # SQLAlchemy types it as Any | None


def _read(connection: Connection, *, work: Callable[[Connection], T]) -> T:
    with connection.begin():
        return work(connection)


def _connect(uri: str, *, begin: str, pragmas: Sequence[str]) -> Connection:
    def open_file() -> sqlite3.Connection:
        # Without an isolation level the driver starts no transactions; the listener on `begin` does.
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=open_file, poolclass=NullPool)
    # Not through SQLAlchemy, whose statement would cost a fifth of a commit.
    event.listen(engine, "begin", lambda connection: _driver(connection).execute(begin))
    return engine.connect()
