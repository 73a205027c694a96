"""The history thread serializes its tasks: no database is opened twice or written concurrently."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from aliquot.service.history.grids import covering
from aliquot.service.history.measures import MeasureKind
from aliquot.store.timeseries.history_store import FILE, HistoryDatabase, HistoryFile, HistoryPlan
from aliquot.store.timeseries.tiers import TierRetention
from aliquot_schema.async_tasks import run_shielded
from history_stores import AGENT, SECOND, T0, ManualClock, fill, roster
from store_places import Place

pytestmark = pytest.mark.anyio
T = TypeVar("T")
TURNS = 50


class SlowDatabase(HistoryFile):
    """Takes turns as slowly as over a network, and finishes after its caller stopped waiting."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.folder / FILE, now_us=ManualClock().now_us)
        self._tasks: set[asyncio.Future[Any]] = set()
        self.opened = 0
        self.writing = self.writing_most = 0
        self.has_written = self.is_ending = False

    async def open(self) -> None:
        self.opened += 1
        await self._take_turns()
        await super().open()

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await run_shielded(self._write(work), tasks=self._tasks)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await super().write(work)

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        await super().close()

    async def _write(self, work: Callable[[Connection], T]) -> T:
        self.writing += 1
        self.writing_most = max(self.writing, self.writing_most)
        self.has_written = True
        while not self.is_ending:  # noqa: ASYNC110 # set by another loop
            await asyncio.sleep(0.001)
        await self._take_turns()
        try:
            return await super().write(work)
        finally:
            self.writing -= 1

    async def _take_turns(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0.001)


@pytest.fixture
def database(sqlite_place: Place) -> SlowDatabase:
    return SlowDatabase(sqlite_place)


@pytest.fixture
def store(database: SlowDatabase) -> HistoryDatabase:
    now_us = ManualClock().now_us
    plan = HistoryPlan(
        make_database=lambda: database, kept=TierRetention(), interval_s=2.0, now_us=now_us, wall_us=now_us
    )
    return HistoryDatabase(plan)


async def test_concurrent_callers_open_the_history_database_once(
    store: HistoryDatabase, database: SlowDatabase
) -> None:
    database.is_ending = True
    await store.open()
    grid = covering(T0, T0 + 60 * SECOND, step_s=60)
    await asyncio.gather(store.maintain(), store.gathered(MeasureKind.DEVICES, AGENT, grid))
    assert database.opened == 1
    await store.close()


async def test_closing_the_store_does_not_start_a_second_concurrent_write(
    store: HistoryDatabase, database: SlowDatabase
) -> None:
    await store.open()
    fill(store, roster(), load=lambda _: 50.0, first_us=T0, last_us=T0 + 700 * SECOND)
    async with asyncio.timeout(60):
        while not database.has_written:  # noqa: ASYNC110 # set by another loop
            await asyncio.sleep(0.001)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    database.is_ending = True
    await closing
    assert database.writing_most == 1
