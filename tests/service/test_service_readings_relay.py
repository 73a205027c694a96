"""Device readings reach every server: the leader publishes them, followers read them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace

from aliquot.clock import SystemClock
from aliquot.service.leadership.readings_relay import (
    KEEP_S,
    STALE_S,
    PublishedReadings,
    ReadingsPublisher,
    ReadingsReceiver,
    ReadingsSnapshot,
    sheet_of,
)
from aliquot.service.ports import StoreUnavailable
from aliquot.service.state.state import State
from aliquot.service.use_cases import ServiceParts
from aliquot.store.timeseries.history_store import HistoryDatabase, HistoryPlan, place_of
from aliquot.store.timeseries.tiers import TierRetention
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId, kernel_id
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.resources.leases import HostUse, Kernel
from aliquot_schema.states import AgentState, SessionState
from aliquot_schema.views.agents import DeviceView
from aliquot_schema.views.live import DeviceUpdateView
from aliquot_schema.views.statistics import HistoryView
from leader_servers import CALLER, OneServer, servers_on
from service_bench import agent
from service_fakes import FakeAgent
from service_stage import StepClock

pytestmark = pytest.mark.anyio

A = AgentId("a")
KERNEL = Kernel(
    id=kernel_id(SessionId("ses_1"), attempt=1, rank=0),
    version=1,
    session_id=SessionId("ses_1"),
    attempt=1,
    rank=0,
    agent_id=A,
    epoch=1,
    granted_us=0,
)


def measured(fake: FakeAgent, utilization_pct: float) -> tuple[DeviceReading, ...]:
    return tuple(
        DeviceReading(
            device_id=device.id,
            utilization_pct=utilization_pct,
            memory_used_bytes=2**34 + 1,
            temperature_c=41.5,
            power_w=300.25,
        )
        for device in fake.devices
    )


def shown(server: OneServer, agent_id: AgentId = A) -> list[float | None]:
    """Utilization, as users see it."""
    view = server.cases.queries.agent(CALLER, agent_id)
    return [] if view is None else [device.utilization_pct for device in view.devices]


async def test_a_follower_shows_the_same_device_readings_as_the_leader(database_url: str) -> None:
    fake = agent("a", devices=2)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        await leader.until(lambda: A in leader.cases.state.reachable)
        leader.executors[-1].report_readings(A, measured(fake, 37.123456789))
        await follower.until(lambda: 37.123456789 in shown(follower))
        assert follower.cases.queries.agent(CALLER, A) == leader.cases.queries.agent(CALLER, A)
        ours, theirs = (server.cases.queries.cluster(CALLER, None).gpus for server in (follower, leader))
        assert ours == theirs
        assert {gpu.temperature for gpu in ours} == {41.5}


async def test_a_follower_shows_cpu_and_memory_of_sessions_too(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        leader, follower = servers.all
        await leader.until(lambda: A in leader.cases.state.reachable)
        session_id = await leader.submit()
        await leader.until_state(session_id, SessionState.RUNNING)
        [kernel] = leader.cases.state.kernels.values()
        use = HostUse(cpu_ms=5, memory_bytes=7)
        leader.executors[-1].report_readings(A, (), {kernel.id: use})
        await follower.until(lambda: follower.cases.state.host_uses.of(kernel) == use)


async def test_device_updates_at_a_follower_contain_each_change(database_url: str) -> None:
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        await follower.until(lambda: A in follower.cases.state.agents)
        await leader.until(lambda: A in leader.cases.state.reachable)
        async with aclosing(follower.cases.watching.device_updates(CALLER, None)) as updates:
            seen = [await anext(updates)]
            for percent in (10.0, 90.0):
                leader.executors[-1].report_readings(A, measured(fake, percent))
                while not any(view.utilization_pct == percent for view in _devices(seen[-1])):
                    seen.append(await anext(updates))
            assert [update.is_snapshot for update in seen] == [True] + [False] * (len(seen) - 1)


async def test_after_a_takeover_readings_come_only_from_the_new_leader(database_url: str) -> None:
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        old, new = servers.all
        await old.until(lambda: A in old.cases.state.reachable)
        old.executors[-1].report_readings(A, measured(fake, 10.0))
        await new.until(lambda: shown(new) == [10.0])
        await old.stop()
        assert await servers.leader() is new
        assert shown(new) == [None]
        third = await servers.start()
        assert shown(third) == [None]
        await new.until(lambda: A in new.cases.state.reachable)
        new.executors[-1].report_readings(A, measured(fake, 20.0))
        await third.until(lambda: shown(third) == [20.0])


async def test_an_unreadable_readings_row_is_logged_and_the_next_one_is_used(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        await leader.until(lambda: A in leader.cases.state.reachable)
        leader.executors[-1].report_readings(A, measured(fake, 10.0))
        await follower.until(lambda: shown(follower) == [10.0])
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute("UPDATE readings SET number = number + 1000, body = 'no sheet'")
        finally:
            await connection.close()
        await follower.until(lambda: "device readings cannot be exchanged with the other servers" in caplog.text)
        leader.executors[-1].report_readings(A, measured(fake, 20.0))
        await follower.until(lambda: shown(follower) == [20.0])


async def test_a_follower_says_that_history_of_the_last_minutes_may_be_with_the_leader(
    database_url: str, tmp_path: Path
) -> None:
    fake = agent("a", devices=1)
    async with AsyncExitStack() as stack:
        kept = [await stack.enter_async_context(_history(database_url, tmp_path)) for _ in range(2)]
        servers = await stack.enter_async_context(
            servers_on(database_url, [fake], parts=lambda number: ServiceParts(measurements=kept[number]))
        )
        leader, follower = servers.all
        await leader.until(lambda: A in leader.cases.state.reachable)
        leader.executors[-1].report_readings(A, measured(fake, 10.0))
        async with asyncio.timeout(60):
            while not (told := await _asked(leader)).series:  # noqa: ASYNC110 # there is no event
                await asyncio.sleep(0.01)
        assert told.warning is None
        await follower.until(lambda: A in follower.cases.state.agents)
        unwritten = await _asked(follower)
        assert unwritten.series == ()
        assert unwritten.warning is not None
        assert "this server follows: measurements of the last 5 minutes" in unwritten.warning
        await kept[0].flush()
        assert {one.metric for one in (await _asked(follower)).series} >= {"utilization", "temperature"}
        past = await _asked(follower, until=datetime(2026, 1, 1, tzinfo=UTC))
        assert past.warning is None


class OneSheet:
    """A relay in memory."""

    def __init__(self) -> None:
        self.told: PublishedReadings | None = None
        self.puts = self.kept = 0
        self.is_away = False

    async def put(self, sheet: ReadingsSnapshot, *, epoch: int, number: int) -> bool:
        self.told = PublishedReadings(epoch=epoch, number=number, age_s=0.0, sheet=sheet)
        self.puts += 1
        return True

    async def keep(self, *, epoch: int, number: int) -> bool:
        self.kept += 1
        return True

    async def newest(self, *, known: tuple[int, int] | None) -> PublishedReadings | None:
        if self.is_away:
            raise StoreUnavailable("it is away")
        told = self.told
        return replace(told, sheet=None) if told is not None and known == (told.epoch, told.number) else told


@pytest.fixture
def fake() -> FakeAgent:
    return agent("a", devices=1)


@pytest.fixture
def known(fake: FakeAgent) -> State:
    """A state with the agent, as a follower has it from the log."""
    state = State()
    state.load([replace(fake.describe(), version=3)], revision=0, ended_complete=True)
    return state


def sheet_in(state: State, fake: FakeAgent, utilization_pct: float) -> ReadingsSnapshot:
    """As a leader in the same state sends it."""
    readings = {(fake.id, reading.device_id): reading for reading in measured(fake, utilization_pct)}
    return sheet_of(state.agents.values(), readings, blocked={NodeId("n"): {DeviceId("gpu-1"): 1000}})


async def test_readings_that_are_not_confirmed_expire(known: State, fake: FakeAgent) -> None:
    clock, relay = StepClock(), OneSheet()
    hearing = ReadingsReceiver(state=known, relay=relay, clock=clock, leads=lambda: False)
    use = HostUse(cpu_ms=5, memory_bytes=7)
    sheet = replace(sheet_in(known, fake, 10.0), host_uses={KERNEL.id: use})
    await relay.put(sheet, epoch=1, number=1)
    await hearing.run_once()
    assert [reading.utilization_pct for reading in known.readings.values()] == [10.0]
    assert known.foreign_usage.blocked == {"n": {"gpu-1": 1000}}
    assert known.host_uses.of(KERNEL) == use
    assert relay.told is not None
    relay.told = replace(relay.told, age_s=STALE_S + 1)
    await hearing.run_once()
    assert (known.readings, known.foreign_usage.blocked, known.host_uses.of(KERNEL)) == ({}, {}, None)
    relay.told = replace(relay.told, age_s=1.0)
    await hearing.run_once()
    assert known.host_uses.of(KERNEL) == use
    assert len(known.readings) == len(known.foreign_usage.blocked) == 1


async def test_readings_are_kept_for_a_limited_time_without_the_database(known: State, fake: FakeAgent) -> None:
    clock, relay = StepClock(), OneSheet()
    hearing = ReadingsReceiver(state=known, relay=relay, clock=clock, leads=lambda: False)
    await relay.put(sheet_in(known, fake, 10.0), epoch=1, number=1)
    await hearing.run_once()
    relay.is_away = True
    clock.advance(STALE_S - 1)
    await hearing.run_once()
    assert len(known.readings) == 1
    clock.advance(2)
    await hearing.run_once()
    assert known.readings == {}


async def test_readings_are_used_only_with_the_matching_version_of_the_agent(known: State, fake: FakeAgent) -> None:
    """The sheet may arrive before the event, and another version may have other devices."""
    relay, later = OneSheet(), replace(known.agents[A], version=4)
    hearing = ReadingsReceiver(state=known, relay=relay, clock=StepClock(), leads=lambda: False)
    leader = State()
    leader.load([later], revision=0, ended_complete=True)
    await relay.put(sheet_in(leader, fake, 10.0), epoch=1, number=1)
    await hearing.run_once()
    assert known.readings == {}
    known.load([later], revision=0, ended_complete=True)
    await hearing.run_once()
    assert len(known.readings) == 1


async def test_readings_of_an_agent_missing_from_the_next_snapshot_are_removed(known: State, fake: FakeAgent) -> None:
    relay = OneSheet()
    hearing = ReadingsReceiver(state=known, relay=relay, clock=StepClock(), leads=lambda: False)
    await relay.put(sheet_in(known, fake, 10.0), epoch=1, number=1)
    await hearing.run_once()
    await relay.put(ReadingsSnapshot(lines=(), blocked={}), epoch=1, number=2)
    await hearing.run_once()
    assert (known.readings, known.foreign_usage.blocked) == ({}, {})


async def test_a_leader_ignores_relayed_readings_and_reads_them_again_after_its_term(
    known: State, fake: FakeAgent
) -> None:
    relay, leads = OneSheet(), True
    hearing = ReadingsReceiver(state=known, relay=relay, clock=StepClock(), leads=lambda: leads)
    await relay.put(sheet_in(known, fake, 10.0), epoch=1, number=1)
    await hearing.run_once()
    assert known.readings == {}
    leads = False
    await hearing.run_once()
    known.readings.drop()  # at the end of a term, which may take its time
    known.foreign_usage.set({})
    await hearing.run_once()
    assert len(known.readings) == len(known.foreign_usage.blocked) == 1


async def test_only_changed_readings_are_published_and_unchanged_ones_are_confirmed(
    known: State, fake: FakeAgent
) -> None:
    clock, relay = StepClock(), OneSheet()
    telling = ReadingsPublisher(state=known, relay=relay, clock=clock)
    known.readings.take(A, measured(fake, 10.0))
    for _ in range(3):
        await telling.run_once(1)
    assert (relay.puts, relay.kept) == (1, 0)
    clock.advance(KEEP_S)
    await telling.run_once(1)
    assert (relay.puts, relay.kept) == (1, 1)
    known.readings.take(A, measured(fake, 11.0))
    await telling.run_once(1)
    await telling.run_once(2)
    assert (relay.puts, relay.kept) == (3, 1)


async def test_readings_of_an_agent_that_left_are_not_published(known: State, fake: FakeAgent) -> None:
    readings = {(A, reading.device_id): reading for reading in measured(fake, 10.0)}
    gone = replace(known.agents[A], state=AgentState.LEFT)
    assert sheet_of([gone], readings, blocked={}).lines == ()


@asynccontextmanager
async def _history(url: str, folder: Path) -> AsyncIterator[HistoryDatabase]:
    now_us = SystemClock().now_us
    place = place_of(url, data_folder=folder, now_us=now_us)
    store = HistoryDatabase(
        HistoryPlan(make_database=place, kept=TierRetention(), interval_s=0.5, now_us=now_us, wall_us=now_us)
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _asked(server: OneServer, *, until: datetime | None = None) -> HistoryView:
    return await server.cases.history.device_history(CALLER, A, device_ids=None, since=None, until=until, points=10)


def _devices(update: DeviceUpdateView) -> list[DeviceView]:
    return [view for one in update.agents for view in one.devices]
