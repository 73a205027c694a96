"""Old records are archived, then removed: chains, replays, balances and needed records stay intact."""

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, func, select, update

from aliquot.service import retention
from aliquot.service.leadership import clock_keeper
from aliquot.service.ledger.replay import Replayed, replay
from aliquot.service.ports import NotLeader
from aliquot.service.retention import (
    DAY_US,
    HistoryDamaged,
    Periods,
    RemovedRows,
    RetentionLoop,
    RetentionPlan,
    SealedArchive,
)
from aliquot.service.state.state import State
from aliquot.store.archive import passes
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.archive.folder import ArchiveFolder
from aliquot.store.archive.verification import all_seals, verify_archives
from aliquot.store.audit.holdings import follow_all
from aliquot.store.integrity import checked, verified
from aliquot.store.store import DatabaseStore
from aliquot.store.tables import EVENTS, SESSIONS
from ledger_workload import LeapingClock, RandomWorkload, two_terms, workload_on
from lone_service import load_state
from store_places import Place

pytestmark = pytest.mark.anyio

ALL = Periods(sessions_us=DAY_US, events_us=DAY_US, ledger_us=DAY_US)


def later(days: float) -> LeapingClock:
    clock = LeapingClock()
    clock.advance(days * 86_400)
    return clock


@pytest.fixture
async def store(place: Place) -> AsyncIterator[DatabaseStore]:
    async with two_terms(place, entries=12) as opened:
        yield opened


def history_of(store: DatabaseStore, folder: Path | None, *, clock: LeapingClock, kept: int = 20) -> DatabaseHistory:
    archive = None if folder is None else ArchiveFolder(folder)
    return DatabaseHistory(store, folder=archive, epoch=None, now_us=clock.now_us, events_min=kept)


async def remove(store: DatabaseStore, folder: Path | None, *, days: float, periods: Periods = ALL) -> RemovedRows:
    clock = later(days)
    history = history_of(store, folder, clock=clock)
    return await RetentionLoop(history, memory=State(), clock=clock, periods=periods).run_once()


async def count(store: DatabaseStore, table: object) -> int:
    return await store.read(lambda connection: connection.execute(select(func.count()).select_from(table)).scalar_one())


async def replayed(store: DatabaseStore) -> list[Replayed]:
    """Everything replayable."""
    keys = await store.ledger.last(100_000)
    return [one async for one in replay(store.ledger, first=keys[0].number, last=keys[-1].number)]


async def test_young_records_are_kept(store: DatabaseStore, tmp_path: Path) -> None:
    assert await remove(store, tmp_path, days=0) == RemovedRows(passes=0, events=0, sessions=0)
    assert os.listdir(tmp_path) == []


async def test_old_records_are_archived_and_chains_and_balances_stay_intact(
    store: DatabaseStore, tmp_path: Path
) -> None:
    before_events, before_sessions = await count(store, EVENTS), await count(store, SESSIONS)
    usage = (await load_state_again(store)).books.usage
    removed = await remove(store, tmp_path, days=500)
    assert removed.passes > 0
    assert removed.events > 0
    assert removed.sessions > 0
    assert await count(store, EVENTS) == before_events - removed.events
    assert await count(store, SESSIONS) == before_sessions - removed.sessions
    assert (await store.read(checked)).faults == []
    told = verify_archives(await store.read(all_seals), folder=tmp_path)
    assert told.faults == ()
    assert told.links == removed.passes + removed.events
    assert (await load_state_again(store)).books.usage == usage
    assert [one.differences for one in await replayed(store) if one.differences] == []


async def test_the_chains_stay_intact_when_records_are_removed_without_an_archive(store: DatabaseStore) -> None:
    removed = await remove(store, None, days=500)
    assert removed.events > 0
    assert (await store.read(verified)).events == await count(store, EVENTS)
    told = verify_archives(await store.read(all_seals), folder=Path("nowhere"))
    assert (told.files, told.faults) == (0, ())
    assert told.gone > removed.passes + removed.events


async def test_an_interrupted_removal_is_consistent_and_resumes(store: DatabaseStore, tmp_path: Path) -> None:
    clock = later(500)
    history = history_of(store, tmp_path, clock=clock)
    before_us = clock.now_us()
    assert await history.seal_ledger(before_us) is not None
    assert await history.remove_passes() > 0
    assert (await store.read(checked)).faults == []
    while await history.remove_passes():
        continue
    sealed = await history.seal_events(before_us)
    assert sealed is not None
    await store.write(partial(remove_events, until=sealed.first + 2))
    assert (await store.read(checked)).faults == []
    removed = await remove(store, tmp_path, days=500)
    assert removed.events == sealed.rows - 3
    assert (await store.read(checked)).faults == []
    assert verify_archives(await store.read(all_seals), folder=tmp_path).faults == ()


async def test_a_tampered_event_stops_archiving(store: DatabaseStore, tmp_path: Path) -> None:
    await store.write(forge)
    with pytest.raises(HistoryDamaged, match="event 5 was changed"):
        await remove(store, tmp_path, days=500)
    assert await count(store, EVENTS) == (await store.events_after(0, limit=10**6))[-1].number
    assert [name for name in os.listdir(tmp_path) if name.startswith("events")] == []


async def test_passes_that_vanish_while_they_are_archived_are_said_to_be_missing(
    store: DatabaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "page", lambda connection, *, after, last: [])
    with pytest.raises(HistoryDamaged, match="a pass after 0 is missing"):
        await remove(store, tmp_path, days=500)
    assert os.listdir(tmp_path) == []


async def test_events_after_an_archive_are_chained_to_it(store: DatabaseStore, place: Place, tmp_path: Path) -> None:
    await remove(store, tmp_path, days=500)
    await store.close()
    async with workload_on(place, seed=4) as (workload, running):
        await workload.run_until_entries(running.ledger, len(await running.ledger.last(1000)) + 12)
    await store.open()
    await store.write(follow_all)
    again = await remove(store, tmp_path, days=1000)
    assert again.events > 0
    assert (await store.read(checked)).faults == []
    told = verify_archives(await store.read(all_seals), folder=tmp_path)
    assert told.faults == ()
    assert len([name for name in os.listdir(tmp_path) if name.startswith("events") and name.endswith(".parquet")]) == 2


async def test_a_busy_leader_removes_old_records_while_it_works(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workload_on(place, seed=1) as (course, running):
        await course.run_until_entries(running.ledger, 12)
        old = set(course.service.state.sessions)
    monkeypatch.setattr(retention, "FIRST_S", 0.1)
    monkeypatch.setattr(retention, "EVERY_S", 0.1)
    monkeypatch.setattr(retention, "PATIENCE_S", 0.0)  # these days pass on the wall clock only
    async with workload_on(place, seed=2, retention=partial(plan_of, tmp_path)) as (workload, running):
        workload.clock.advance(500 * 86_400)
        async with asyncio.timeout(300):
            while not (gone := old - await known(running)):
                await workload.step()
        assert not gone & set(workload.service.state.sessions)
        await workload.run_until_entries(running.ledger, 20)
        assert (await running.read(checked)).faults == []
    store = place.store()
    await store.open()
    try:
        assert isinstance(store, DatabaseStore)
        assert [one.differences for one in await replayed(store) if one.differences] == []
        assert verify_archives(await store.read(all_seals), folder=tmp_path).faults == ()
    finally:
        await store.close()


@pytest.mark.parametrize("is_put_right", [True, False])
async def test_a_clock_leap_of_400_days_removes_nothing_for_a_day_on_any_leader(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_put_right: bool
) -> None:
    monkeypatch.setattr(retention, "FIRST_S", 0.01)
    monkeypatch.setattr(retention, "EVERY_S", 0.01)
    monkeypatch.setattr(retention, "PAUSE_S", 0.0)
    asked = list[int]()
    leap_s = 400 * 86_400.0

    def plan(store: DatabaseStore) -> RetentionPlan:
        return RetentionPlan(periods=Periods(), open_history=lambda epoch: Asked(store, asked, epoch=epoch))

    async def looks(workload: RandomWorkload) -> None:
        for _ in range(60):
            await workload.step()
            await asyncio.sleep(0.01)

    async with workload_on(place, seed=1, retention=plan) as (workload, running):
        await workload.run_until_entries(running.ledger, 6)
        workload.clock.advance(20 * 86_400)
        workload.clock.advance_monotonic(20 * 86_400)
        await workload.run_until_entries(running.ledger, 12)
        before_us = workload.clock.wall_us()
        workload.clock.set_wall_clock(leap_s)
        await workload.service.keeper.run_once()
        workload.clock.advance_monotonic(clock_keeper.PATIENCE_S)
        await workload.service.keeper.run_once()
        await looks(workload)
        kept = await known(running)
    async with workload_on(place, seed=2, retention=plan, keeps_time=True) as (workload, running):
        assert workload.service.state.clock_correction is not None
        await looks(workload)
        assert all(one < before_us for one in asked), "a run that had begun before goes on by the time before"
        asked.clear()
        assert kept <= await known(running)
        if is_put_right:
            workload.clock.set_wall_clock(-leap_s)
        else:
            workload.clock.advance_monotonic(retention.PATIENCE_S)
        async with asyncio.timeout(120):
            while len(asked) < 3:
                await workload.step()
        assert kept <= await known(running) or not is_put_right


class Asked(DatabaseHistory):
    """Records the cutoff times for old sessions."""

    def __init__(self, store: DatabaseStore, asked: list[int], *, epoch: int) -> None:
        super().__init__(store, folder=None, epoch=epoch, now_us=later(0).now_us, events_min=20)
        self._asked = asked

    async def seal_sessions(self, before_us: int) -> SealedArchive | None:
        self._asked.append(before_us)
        return await super().seal_sessions(before_us)


async def known(store: DatabaseStore) -> set[str]:
    """The sessions in the database."""
    return set(await store.read(lambda connection: connection.execute(select(SESSIONS.c.id)).scalars().all()))


def plan_of(folder: Path, store: DatabaseStore) -> RetentionPlan:
    def history(epoch: int) -> DatabaseHistory:
        return DatabaseHistory(
            store, folder=ArchiveFolder(folder), epoch=epoch, now_us=later(500).now_us, events_min=20
        )

    return RetentionPlan(periods=ALL, open_history=history)


async def test_a_former_leader_archives_nothing(store: DatabaseStore, tmp_path: Path) -> None:
    clock = later(500)
    history = DatabaseHistory(store, folder=ArchiveFolder(tmp_path), epoch=1, now_us=clock.now_us, events_min=0)
    with pytest.raises(NotLeader):
        await RetentionLoop(history, memory=State(), clock=clock, periods=ALL).run_once()
    assert await store.read(all_seals) == []


def remove_events(connection: Connection, *, until: int) -> None:
    with connection.begin():
        connection.execute(delete(EVENTS).where(EVENTS.c.number <= until))


def forge(connection: Connection) -> None:
    with connection.begin():
        connection.execute(update(EVENTS).where(EVENTS.c.number == 5).values(actor="nobody"))


async def load_state_again(store: DatabaseStore) -> State:
    await store.close()
    state, _ = await load_state(store)
    return state
