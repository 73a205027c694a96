"""Right-size advice of a running service: in previews, in session statistics, and weekly to the owner."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from aliquot.clock import RandomIds, SystemClock
from aliquot.service.alerts.context import AlertContext
from aliquot.service.alerts.routing import Receiver
from aliquot.service.alerts.weekly_advice import WeeklyAdvice, _words
from aliquot.service.history.right_size import RightSizing
from aliquot.service.ports import SessionQuery
from aliquot.service.use_cases import ServiceParts
from aliquot.store.timeseries.held_gpus import DatabaseHoldings
from aliquot_schema.alerts import NoticeKind, Subscriber
from aliquot_schema.events import Record
from aliquot_schema.ids import AgentId, DeviceId, SessionId, UserId, kernel_id
from aliquot_schema.requests import Caller, NewSession, Role
from aliquot_schema.resources.leases import HostUse, Kernel
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.right_size import RightSizeKind
from aliquot_schema.views.statistics import GpuStatsView
from notices_pipeline import alert_pipeline, fail_session
from service_bench import CALLER, agent, service_on
from service_fakes import FakeExecutor

pytestmark = pytest.mark.anyio
HOUR_US = 3_600_000_000
OWNERS = Receiver(name="owners", kind="webhook", tells_alerts=False, tells_owners=True)


async def test_previews_and_statistics_advise_the_time_limit_of_past_runs(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2)])
    more = {"time_limit": 4 * 3600}
    async with service_on(tmp_path, executor, parts=lambda store: ServiceParts(holdings=DatabaseHoldings(store))) as on:
        await on.service.wait_for_agents(frozenset({AgentId("a")}))
        again = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], **more)  # type: ignore[arg-type]
        assert (await on.service.previews.preview(CALLER, again)).right_size is None
        for _ in range(4):
            session_id = await on.submit(devices=1, **more)
            await on.until_state(session_id, SessionState.RUNNING)
            executor.end_kernel(kernel_id(session_id, attempt=1, rank=0))
            await on.until_state(session_id, SessionState.COMPLETED)
        found = (await on.service.previews.preview(CALLER, again)).right_size
        assert found is not None
        [figure] = found.figures
        assert (found.command, found.runs, figure.kind) == ("true on 1 GPU", 4, RightSizeKind.TIME_LIMIT)
        assert (figure.advised, figure.enough, figure.tested) == ("5 min", 1, 1)
        stats = await on.service.history.session_stats(CALLER, session_id)
        assert stats.right_size == found
        other = NewSession(argv=("python", "other.py"), shell=None, slots=[("cuda.device", "1")])
        assert (await on.service.previews.preview(CALLER, other)).right_size is None
        stranger = Caller(user=UserId("eve"), request_id="req_test", role=Role.USER)
        assert (await on.service.previews.preview(stranger, again)).right_size is None


class Past:
    """A store of ended sessions."""

    def __init__(self, sessions: Sequence[Session], kernel: Kernel) -> None:
        self.sessions_ = sessions
        self.kernel = kernel

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        return tuple(reversed(self.sessions_))

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        kernel = replace(self.kernel, host_use=HostUse(cpu_ms=1, memory_bytes_max=3 << 30))
        return (*(session for session in self.sessions_ if session.id == session_id), kernel)


async def past_runs(tmp_path: Path, count: int) -> Past:
    """Runs of an hour on 2 GPUs; the clock of a test would take too long."""
    executor = FakeExecutor([agent("a", devices=2)])
    async with service_on(tmp_path, executor) as on:
        await on.service.wait_for_agents(frozenset({AgentId("a")}))
        session_id = await on.submit(devices=2)
        await on.until_state(session_id, SessionState.RUNNING)
        executor.end_kernel(kernel_id(session_id, attempt=1, rank=0))
        one = await on.until_state(session_id, SessionState.COMPLETED)
        [kernel] = on.state.kernels_in(one)
    assert one.started_us is not None
    ended_us, memory = one.started_us + HOUR_US, ResourceSlot.parse({"cuda.device": "2", "mem": "16g"})
    one = replace(one, ended_us=ended_us, spec=replace(one.spec, slots=memory))
    return Past([replace(one, id=SessionId(f"ses_{number}")) for number in range(count)], kernel)


async def test_advice_omits_unused_gpus_and_reads_past_runs_once(tmp_path: Path) -> None:
    store, asked = await past_runs(tmp_path, 5), list[str]()
    past = store.sessions_

    async def gpus(session_id: SessionId) -> tuple[GpuStatsView, ...]:
        asked.append(session_id)
        fields = {"agent_id": "a", "share": 1.0, "utilization_max": 99.0, "memory_gb": 80.0, "memory_peak_gb": 20.0}
        return tuple(
            GpuStatsView(device_id=DeviceId(f"g{number}"), utilization=use, **fields)  # type: ignore[arg-type]
            for number, use in enumerate((90.0, 0.0))
        )

    class Later(SystemClock):
        def now_us(self) -> int:
            return super().now_us() + 2 * HOUR_US

    sizing = RightSizing(store=store, clock=Later(), gpus=gpus)  # type: ignore[arg-type]  # the part it uses
    found = await sizing.advice(past[0])
    assert found is not None
    kinds = {figure.kind: figure for figure in found.figures}
    assert kinds[RightSizeKind.GPUS].advised == "1"
    assert "(-r gpu=1) (enough for 2 of 2 later runs" in kinds[RightSizeKind.GPUS].message
    assert kinds[RightSizeKind.GPU_MEMORY].advised == "21.5 GiB"
    assert kinds[RightSizeKind.MEMORY].advised == "3.5 GiB"
    await sizing.advice(past[0])
    assert len(asked) == 5
    assert list(await sizing.weekly(past[0].owner)) == [found.message]


async def no_gpus(_: SessionId) -> tuple[GpuStatsView, ...]:
    """GPUs of which nothing was measured."""
    return ()


async def test_a_session_that_was_retried_counts_with_its_newest_run(tmp_path: Path) -> None:
    store = await past_runs(tmp_path, 3)

    class Later(SystemClock):
        def now_us(self) -> int:
            return super().now_us() + 9 * HOUR_US

    sizing = RightSizing(store=store, clock=Later(), gpus=no_gpus)  # type: ignore[arg-type]  # the part it uses
    limits = []
    for ran_us in (HOUR_US, 4 * HOUR_US):
        store.sessions_ = [replace(one, ended_us=(one.started_us or 0) + ran_us) for one in store.sessions_]
        found = await sizing.advice(store.sessions_[0])
        assert found is not None
        limits += [figure.largest for figure in found.figures if figure.kind is RightSizeKind.TIME_LIMIT]
    assert limits == ["1 h", "4 h"]


async def test_a_request_whose_use_was_not_measured_is_not_said_to_match(tmp_path: Path) -> None:
    store = await past_runs(tmp_path, 6)
    slots = ResourceSlot.parse({"cuda.device": "2"})
    store.sessions_ = [
        replace(one, spec=replace(one.spec, slots=slots, time_limit_ms=75 * 60_000)) for one in store.sessions_
    ]

    sizing = RightSizing(store=store, clock=SystemClock(), gpus=no_gpus)  # type: ignore[arg-type]  # the part it uses
    found = await sizing.advice(store.sessions_[0])
    assert found is not None
    assert found.message == f"How much the last 6 runs of {found.command} used their GPUs is not known."


async def test_the_weekly_advice_names_a_command_once_whatever_its_time_limits_were(tmp_path: Path) -> None:
    store = await past_runs(tmp_path, 6)
    limits_ms = [8 * 3_600_000, 9 * 3_600_000] * 3
    store.sessions_ = [
        replace(one, spec=replace(one.spec, time_limit_ms=limit_ms))
        for one, limit_ms in zip(store.sessions_, limits_ms, strict=True)
    ]

    sizing = RightSizing(store=store, clock=SystemClock(), gpus=no_gpus)  # type: ignore[arg-type]  # the part it uses
    [told] = await sizing.weekly(store.sessions_[0].owner)
    assert "a time limit of 1 h 15 min would do" in told


class Advisor:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def weekly(self, user: UserId) -> tuple[str, ...]:
        self.asked.append(user)
        return ("Request 1.",)


async def test_owners_get_advice_once_a_week_unless_they_disable_it() -> None:
    async with alert_pipeline(OWNERS) as on:
        await on.deliver()
        await fail_session(on, name="one")
        context = AlertContext(state=on.stage.state, journal=on.stage.journal, clock=on.stage.clock, ids=RandomIds())
        advice = WeeklyAdvice(context, advisor=Advisor(), receivers=[OWNERS])
        counts = []
        for _ in range(15 * 24):
            on.stage.clock.advance(3600)
            counts.append(await advice.run_once())
            await on.deliver()
        assert sum(counts) in (2, 3), "15 days have two or three Mondays"
        told = [one for letter in on.senders["owners"].messages for one in letter.notices]
        advised = [one for one in told if one.kind is NoticeKind.RIGHT_SIZE]
        assert len(advised) == sum(counts)
        assert advised[0].words == "what your commands needed in the last weeks: Request 1."
        owner = advised[0].user
        assert owner is not None
        await on.stage.journal.transact(lambda draft: draft.put(Subscriber(id=owner, notify=()), "changed"), actor="x")
        for _ in range(8):
            on.stage.clock.advance(86_400)
            assert await advice.run_once() == 0


async def test_the_weekly_advice_cuts_no_sentence() -> None:
    """A time limit without its end would be read as another one."""
    told = [f"Of command {number}, {'much is said. ' * 40}A limit of 2 h 30 min would do." for number in range(5)]
    assert _words(told) == f"{told[0]} {told[1]} {told[2]} 2 more: see `aliquot session stats`."
    assert _words(told[:1]) == told[0]
