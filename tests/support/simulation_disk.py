"""The database of a run: SQLite in memory, inline, that fills up, fails, and loses acknowledgements."""

import sqlite3
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.pool import NullPool

from aliquot.service.ports import StoreUnavailable
from aliquot.store.migration import migrate
from simulation_loop import Process, SeededLoop

T = TypeVar("T")


class Disk:
    """The disk of all servers. A committed transaction survives every crash."""

    def __init__(self, random: Random, *, on_commit: Callable[[Connection], None]) -> None:
        self.connection = _copied()
        self.is_full = False
        self.is_away = False
        self.fails_next: str | None = None
        """`within` = a statement fails; `after` = it is committed, but not acknowledged."""
        self._random = random
        self._on_commit = on_commit
        self._statements_left: int | None = None
        event.listen(self.connection, "before_cursor_execute", self._before_statement)

    def write(self, work: Callable[[Connection], T]) -> T:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        fault, self.fails_next = self.fails_next, None
        if fault == "within" or self.is_full:
            self._statements_left = self._random.randrange(8)
        try:
            done = work(self.connection)
        finally:
            self._statements_left = None
            self._on_commit(self.connection)
        if fault == "after":
            raise StoreUnavailable("the connection ended before the answer came")
        return done

    def read(self, work: Callable[[Connection], T]) -> T:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        with self.connection.begin():
            return work(self.connection)

    def close(self) -> None:
        self.connection.close()

    def _before_statement(self, connection: Connection, cursor: Any, statement: str, *rest: Any) -> None:
        if self._statements_left is None or statement.startswith(("BEGIN", "ROLLBACK", "SELECT")):
            return
        self._statements_left -= 1
        if self._statements_left < 0:
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full


class ProcessDatabase:
    """The port `aliquot.store.store.Database`, for one server process."""

    def __init__(self, disk: Disk, process: Process, loop: SeededLoop) -> None:
        self._disk = disk
        self._process = process
        self._loop = loop

    async def open(self) -> None:
        return None

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._disk.write, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._disk.read, work)

    async def close(self) -> None:
        return None

    async def _run(self, way: Callable[[Callable[[Connection], T]], T], work: Callable[[Connection], T]) -> T:
        if not self._process.is_alive:
            raise StoreUnavailable("this process is dead")
        done: T = await self._loop.run_in_executor(None, way, work)
        return done


@cache
def _template() -> sqlite3.Connection:
    raw = sqlite3.connect(":memory:", isolation_level=None)
    with _opened(raw) as connection:
        migrate(connection)
        copy = sqlite3.connect(":memory:", isolation_level=None)
        raw.backup(copy)
    return copy


def _copied() -> Connection:
    raw = sqlite3.connect(":memory:", isolation_level=None)
    _template().backup(raw)
    return _opened(raw)


def _opened(raw: sqlite3.Connection) -> Connection:
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine.connect()
