"""A clock that once ran ahead: times are corrected, and replay, fair share and retention stay right."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select

from aliquot.service.leadership.clock_keeper import PATIENCE_S
from aliquot.service.ledger.replay import replay
from aliquot.service.retention import DAY_US, Periods, RetentionLoop
from aliquot.service.state.state import State
from aliquot.store.archive.archiver import DatabaseHistory
from aliquot.store.audit.holdings import follow_all
from aliquot.store.integrity import verified
from aliquot.store.store import DatabaseStore
from aliquot.store.tables import EVENTS
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.orchestration import CLOCK_CORRECTED
from aliquot_schema.requests import Caller, NewSession, Role
from ledger_workload import LeapingClock, RandomWorkload, workload_on
from store_places import Place

pytestmark = pytest.mark.anyio

DAY_S = 86_400.0
AHEAD_S = 20_000 * DAY_S
SLACK_US = 120_000_000
ANN = Caller(user=UserId("ann"), request_id="req_ann", role=Role.OPERATOR)


async def submit(workload: RandomWorkload, **fields: Any) -> SessionId:
    request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "4")], **fields)
    made = await workload.service.sessions.create_session(ANN, request)
    return SessionId(made.session.id)


async def set_clock(workload: RandomWorkload, seconds: float) -> None:
    """Set the machine's clock, and let the keeper accept it."""
    workload.clock.set_wall_clock(seconds)
    await workload.service.keeper.run_once()
    workload.clock.advance_monotonic(PATIENCE_S)
    await workload.service.keeper.run_once()


def charged(workload: RandomWorkload) -> int:
    return sum(
        balance.held(0, now_us=workload.clock.now_us()).charged
        for balance in workload.service.state.usage.balances.values()
    )


async def corrections(store: DatabaseStore) -> list[tuple[int, int]]:
    asked = select(EVENTS.c.number, EVENTS.c.at_us).where(EVENTS.c.kind == CLOCK_CORRECTED)
    return await store.read(lambda connection: [tuple(row) for row in connection.execute(asked)])


async def running(workload: RandomWorkload, count: int) -> None:
    async with asyncio.timeout(60):
        while sum(len(one.running) for one in workload.executor.agents.values()) < count:  # noqa: ASYNC110  # the fakes send no event
            await asyncio.sleep(0.01)


async def test_a_clock_that_is_ahead_for_a_moment_needs_no_correction(place: Place) -> None:
    async with workload_on(place) as (workload, store):
        workload.clock.set_wall_clock(AHEAD_S)
        await workload.service.keeper.run_once()
        name = await submit(workload)
        workload.clock.set_wall_clock(-AHEAD_S)
        await workload.service.keeper.run_once()
        session = workload.service.state.sessions[name]
        assert abs(session.queued_us - workload.clock.wall_us()) < SLACK_US
        assert not await corrections(store)


async def test_times_follow_the_corrected_clock_and_durations_are_unaffected(place: Place) -> None:
    async with workload_on(place) as (course, store):
        await submit(course)
        await running(course, 1)
        course.clock.advance(100)
        await set_clock(course, AHEAD_S)
        wrong = await submit(course, held=True)
        assert course.service.state.sessions[wrong].queued_us > course.clock.wall_us() - SLACK_US
        course.clock.advance(100)
        await set_clock(course, -AHEAD_S)
        later = await submit(course, held=True)
        state, now_us = course.service.state, course.clock.wall_us()
        for session in state.sessions.values():
            times = session.queued_us, session.scheduled_us, session.started_us
            assert all(at_us is None or abs(at_us - now_us) < 300_000_000 for at_us in times), session
        assert state.sessions[wrong].queued_us < state.sessions[later].queued_us
        assert 200 * 4000 <= charged(course) // 1000 <= 230 * 4000, "four devices for 200 s, by CLOCK_BOOTTIME"
        assert len(await corrections(store)) == 2
        one = [lease for leases in state.open_leases.values() for lease in leases.values()]
        assert [abs(now_us - lease.granted_us - 200_000_000) < SLACK_US for lease in one] == [True]
        before = charged(course)

    async with workload_on(place) as (workload, store):
        assert abs(workload.clock.now_us() - workload.clock.wall_us()) < SLACK_US
        assert abs(workload.service.state.newest_us - workload.clock.wall_us()) < SLACK_US
        assert abs(charged(workload) - before) < 60_000 * 4000
        assert len(await corrections(store)) == 3, "this clock is 200 s behind the one before"


async def test_passes_across_clock_leaps_replay_without_a_difference(place: Place) -> None:
    async with workload_on(place) as (workload, store):
        for leap_s in (AHEAD_S, 3600.0, -AHEAD_S, -7200.0, 3600.0):
            await workload.run_until_entries(store.ledger, len(await store.ledger.last(1000)) + 6)
            await set_clock(workload, leap_s)
        await workload.run_until_entries(store.ledger, len(await store.ledger.last(1000)) + 6)
    opened = place.store()
    await opened.open()
    assert isinstance(opened, DatabaseStore)
    try:
        assert len(await corrections(opened)) == 5
        keys = await opened.ledger.last(1000)
        found = [one async for one in replay(opened.ledger, first=keys[0].number, last=keys[-1].number)]
        assert [one.differences for one in found if one.differences] == []
        times = [one.entry.now_us for one in found]
        assert any(later < earlier for earlier, later in pairwise(times)), "only at a correction"
        await opened.write(follow_all)
        await opened.read(verified)
    finally:
        await opened.close()


@pytest.mark.parametrize("ahead_s", [120.0, 3600.0])
async def test_an_event_log_ahead_of_the_clock_is_corrected_at_startup(place: Place, ahead_s: float) -> None:
    async with workload_on(place) as (course, store):
        waiting = await submit(course, held=True)
        await set_clock(course, ahead_s)
        dated = course.service.state.sessions[waiting].queued_us
    async with workload_on(place) as (workload, store):
        found = await corrections(store)
        assert len(found) == 2
        assert abs(found[1][1] - workload.clock.wall_us()) < 60_000_000
        moved = workload.service.state.sessions[waiting].queued_us
        assert dated - moved > (ahead_s - 60) * 1e6
        alert = workload.service.state.clock_correction
        assert alert is not None
        assert "the newest event was" in alert.words()


async def test_retention_goes_on_past_events_that_were_dated_ahead(place: Place) -> None:
    async with workload_on(place) as (course, store):
        await course.run_until_entries(store.ledger, 6)
        await set_clock(course, AHEAD_S)
        await course.run_until_entries(store.ledger, 12)
        await set_clock(course, -AHEAD_S)
    for _ in range(2):
        async with workload_on(place) as (workload, store):  # a term begins with a checkpoint, and archives end at one
            await workload.run_until_entries(store.ledger, len(await store.ledger.last(1000)) + 6)
    opened = place.store()
    await opened.open()
    assert isinstance(opened, DatabaseStore)
    try:
        await opened.write(follow_all)
        clock = LeapingClock()
        clock.advance(40 * DAY_S)
        history = DatabaseHistory(opened, folder=None, epoch=None, now_us=clock.now_us, events_min=20)
        kept = Periods(sessions_us=None, events_us=DAY_US, ledger_us=DAY_US, findings_us=None)
        removed = await RetentionLoop(history, memory=State(), clock=clock, periods=kept).run_once()
        last = await opened.read(
            lambda connection: connection.execute(select(EVENTS.c.at_us).order_by(EVENTS.c.number)).scalars().all()
        )
        assert removed.events > 50
        assert max(last) < clock.wall_us()
    finally:
        await opened.close()
