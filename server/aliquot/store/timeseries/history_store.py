"""Time-series store: takes samples on the event loop and serves curves; the work runs in a thread with its own loop.

The database is a SQLite file of its own beside the main one, or separate tables in a shared PostgreSQL database.
"""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DatabaseError

from aliquot.service.history.grids import Curves, Grid
from aliquot.service.history.measures import MeasureKind, Sample
from aliquot.service.history.ports import HistoryUnavailable, MaintenanceResult
from aliquot.service.ports import StoreUnavailable
from aliquot.store.engines.sqlite import connect_writer, create_private
from aliquot.store.open import is_shared
from aliquot.store.store import Database
from aliquot.store.timeseries.rows import make_tables
from aliquot.store.timeseries.tiers import SECOND_US, STEP_US, TierRetention
from aliquot.store.timeseries.writer import HistoryWriter
from aliquot_schema.async_tasks import run_shielded

T = TypeVar("T")

STOP_S_MAX: Final = 30.0


class LoopThread:
    """An event loop in a daemon thread, which never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name=self._name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the thread and await it. Cancelling the caller does not cancel it."""
        assert self._loop is not None, "the thread was not started"
        return await run_shielded(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop)))

    async def stop(self) -> None:
        """Stop the thread and cancel what still runs in it."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, STOP_S_MAX)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


WAITING_MAX: Final = 20_000
"""Unprocessed samples; older ones are dropped above this. 1,000 agents send as many in 40 seconds."""


class HistoryPlan(Struct, frozen=True, kw_only=True):
    """Dependencies and settings of a `HistoryDatabase`."""

    make_database: Callable[[], Database]
    """Called in the thread, which also uses the database."""
    kept: TierRetention
    interval_s: float
    """Time between two readings of a device."""
    now_us: Callable[[], int]
    wall_us: Callable[[], int]
    """Wall clock for retention, microseconds UTC."""
    correct_clock: Callable[[int], None] = lambda _at_us: None
    """Continues `now_us` from another time."""


class HistoryDatabase:
    """Implements `HistoryStore`, which documents the methods."""

    def __init__(self, plan: HistoryPlan) -> None:
        self._plan = plan
        self._waiting: deque[Sample] = deque(maxlen=WAITING_MAX)
        self._thread = LoopThread("history")
        self._writer: HistoryWriter | None = None

    async def open(self) -> None:
        """Start. A database that cannot be opened is logged and retried."""
        self._thread.start()
        await self._thread.run(self._begin)

    async def close(self) -> None:
        """Write what is in memory, and stop. Harmless if it was not opened."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await self._thread.run(writer.end)
        await self._thread.stop()

    def take(self, sample: Sample) -> None:
        self._waiting.append(sample)

    async def gathered(
        self, kind: MeasureKind, name: str, grid: Grid, *, devices: frozenset[str] | None = None
    ) -> dict[str, Curves]:
        return await self._run(lambda writer: writer.gathered(kind, name, grid, devices))

    async def maintain(self) -> MaintenanceResult:
        return await self._run(HistoryWriter.maintain)

    async def flush(self) -> None:
        """Write all samples, including those of incomplete windows."""
        await self._run(HistoryWriter.flush)

    def least_step_s(self, since_us: int) -> float:
        tier = self._plan.kept.finest(since_us, now_us=self._plan.now_us())
        # Twice the time between readings, so that a late reading leaves no gap.
        return max(2 * self._plan.interval_s, STEP_US[tier] / SECOND_US if tier in STEP_US else 0.0)

    @property
    def fault(self) -> str | None:
        return None if self._writer is None else self._writer.fault

    async def _begin(self) -> None:
        plan = self._plan
        self._writer = HistoryWriter(
            plan.make_database(), waiting=self._waiting, kept=plan.kept, now_us=plan.now_us, wall_us=plan.wall_us
        )
        await self._writer.begin()

    async def _run(self, work: Callable[[HistoryWriter], Coroutine[Any, Any, T]]) -> T:
        writer = self._writer
        if writer is None:
            raise HistoryUnavailable("history is not open")
        return await self._thread.run(lambda: work(writer))


_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class HistoryFile:
    """A `Database` in a SQLite file, used by one thread.

    A damaged file is renamed and a new one begun; a deleted file is replaced by a new one too.
    """

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
                self._move_aside()
            raise

    async def write(self, work: Callable[[Connection], T]) -> T:
        assert self._connection is not None, "the history file is not open"
        if not self._is_same_file():
            raise StoreUnavailable(f"{self._path} was deleted; a new file is created")
        try:
            return work(self._connection)
        except DatabaseError as error:
            if _is_damage(error):
                await self.close()
                self._move_aside()
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

    def _is_same_file(self) -> bool:
        """Whether the open file still has this name. SQLite would keep writing to a deleted file."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _move_aside(self) -> None:
        for older in self._path.parent.glob(f"{self._path.name}.*.damaged*"):
            older.unlink(missing_ok=True)  # keep one: a disk that damages files would fill up with them
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._path.with_name(self._path.name + end).rename(
                    self._path.with_name(f"{self._path.name}.{self._now_us()}.damaged{end}")
                )


def _is_damage(error: BaseException) -> bool:
    cause = error.orig if isinstance(error, DatabaseError) else error
    return isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


FILE: Final = Path("server") / "history.sqlite"


def place_of(database_url: str, *, data_folder: Path, now_us: Callable[[], int]) -> Callable[[], Database]:
    """A function that makes the history database for a main database URL. It imports asyncpg only for PostgreSQL."""

    def make() -> Database:
        if not is_shared(database_url):
            return HistoryFile(data_folder / FILE, now_us=now_us)
        from aliquot.store.engines.postgres import PostgresDatabase

        class SharedHistory(PostgresDatabase):
            """A separate connection pool that creates the history tables."""

            async def open(self) -> None:
                await super().open()
                await self.write(make_tables)

        return SharedHistory(make_url(database_url), upgrades=False)

    return make
