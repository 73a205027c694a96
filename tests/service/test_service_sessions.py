"""The life of a session in the service, over a real store and a fake executor."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from aliquot_schema.cluster.launching import KernelPhase, KernelReport
from aliquot_schema.errors import (
    Forbidden,
    IdempotencyMismatch,
    ImpossibleRequest,
    InvalidAmount,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    NotMultipleOfQuantum,
    StateConflict,
    UnknownDependency,
    UnknownSlot,
    VersionConflict,
)
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import AgentId, KernelId, SessionId, UserId
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import NewSession, SessionAction, SessionsAction
from aliquot_schema.sessions import Priority
from aliquot_schema.states import KernelState, SessionState
from service_bench import CALLER, Bench, agent, service_on
from service_fakes import FakeExecutor

pytestmark = pytest.mark.anyio

S = SessionState


def kernel(session_id: SessionId, *, rank: int = 0, attempt: int = 1) -> KernelId:
    return KernelId(f"{session_id}.{attempt}.{rank}")


async def join(bench: Bench, *names: str) -> None:
    await bench.until(lambda: bench.state.reachable >= {AgentId(name) for name in names})


async def test_a_session_gets_exact_devices_runs_and_gives_them_back(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a")
        first = await bench.submit(shares="0.2")
        second = await bench.submit(shares="1.2")
        await bench.until_state(first, S.RUNNING)
        await bench.until_state(second, S.RUNNING)
        view = bench.service.queries.agent(CALLER, "a")
        assert view is not None
        assert view.gpu_alloc_map == '{"a-gpu-0": "0.60", "a-gpu-1": "0.80"}'
        assert [[holder.share for holder in device.holders] for device in view.devices] == [["0.60"], ["0.20", "0.60"]]
        executor.end_kernel(kernel(first))
        executor.end_kernel(kernel(second), code=7)
        assert (await bench.until_state(first, S.COMPLETED)).exit_code == 0
        failed = await bench.until_state(second, S.FAILED)
        assert (failed.exit_code, failed.failure and failed.failure.code) == (7, "exit_code")
        emptied = bench.service.queries.agent(CALLER, "a")
        assert emptied is not None
        assert emptied.gpu_alloc_map == '{"a-gpu-0": "0.00", "a-gpu-1": "0.00"}'


@pytest.mark.parametrize(("asked", "used"), [(0, ["0.50", "0.90"]), (20, ["0.60", "0.80"])])
async def test_a_share_goes_to_the_fullest_gpu_unless_waiting_sessions_fit_better_otherwise(
    tmp_path: Path, asked: int, used: list[str]
) -> None:
    """The example in `placement.md`: 0.4 and 0.5 are free, for a session of 0.3."""
    async with service_on(tmp_path, FakeExecutor([agent("a", devices=2)])) as bench:
        await join(bench, "a")
        for shares in ["0.2", "0.3"] * asked:
            await bench.submit(shares=shares, held=True)
        for shares in ("0.6", "0.5", "0.3"):
            await bench.until_state(await bench.submit(shares=shares), S.RUNNING)
        view = bench.service.queries.agent(CALLER, "a")
        assert view is not None
        assert sorted(device.used for device in view.devices) == used


async def test_sessions_start_in_order_and_say_why_they_wait(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a")
        holder = await bench.submit(devices=1)
        await bench.until_state(holder, S.RUNNING)
        head = await bench.submit(devices=2)
        behind = await bench.submit(devices=1)
        bench.service.allocator.wake()
        await bench.until_state(holder, S.RUNNING)
        await bench.service.allocator.run_once()
        verdicts = bench.state.verdicts
        assert verdicts[head].reason is Reason.INSUFFICIENT
        assert (verdicts[head].evidence.requested, verdicts[head].evidence.available) == ("2", "1")
        assert verdicts[head].evidence.blocked_by == (holder,)
        assert verdicts[behind].reason is Reason.RESERVED
        assert [*bench.state.queue()] == [head, behind]
        executor.end_kernel(kernel(holder))
        await bench.until_state(head, S.RUNNING)
        assert bench.session(behind).state is S.QUEUED


async def test_a_gang_starts_whole_and_one_failure_stops_the_others(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2), agent("b", devices=2)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a", "b")
        gang = await bench.submit(devices=2, cluster_size=2)
        await bench.until_state(gang, S.RUNNING)
        orders = [order for fake in executor.agents.values() for order in fake.orders.values()]
        assert {order.environment["RANK"] for order in orders} == {"0", "1"}
        assert {order.environment["WORLD_SIZE"] for order in orders} == {"2"}
        executor.end_kernel(kernel(gang, rank=1), code=3)
        await bench.until(lambda: bench.state.kernels[kernel(gang, rank=0)].state is KernelState.STOPPING)
        assert bench.session(gang).state is S.RUNNING
        executor.end_kernel(kernel(gang, rank=0), code=None, signal=15)
        assert (await bench.until_state(gang, S.FAILED)).exit_code == 3


async def test_a_gang_that_fits_in_part_holds_nothing(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([agent("a", devices=2)])) as bench:
        await join(bench, "a")
        holder = await bench.submit(devices=1)
        await bench.until_state(holder, S.RUNNING)
        gang = await bench.submit(devices=1, cluster_size=2)
        await bench.service.allocator.run_once()
        assert bench.state.verdicts[gang].reason is Reason.GANG_INCOMPLETE
        assert bench.state.verdicts[gang].evidence.fits_kernels == 1
        assert not bench.state.holds_devices(gang)


async def test_a_cancelled_session_holds_its_devices_until_its_kernels_have_ended(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a")
        first = await bench.submit(devices=1)
        await bench.until_state(first, S.RUNNING)
        changed = await bench.service.sessions.cancel_session(CALLER, first, None)
        assert (changed.session.state, changed.session.holds_devices) == (S.CANCELED, True)
        second = await bench.submit(devices=1)
        await bench.service.allocator.run_once()
        assert bench.session(second).state is S.QUEUED
        executor.end_kernel(kernel(first), code=None, signal=15)
        await bench.until_state(second, S.RUNNING)
        assert bench.session(first).state is S.CANCELED
        again = await bench.service.sessions.cancel_session(CALLER, first, None)
        assert again.session.state is S.CANCELED
        executor.end_kernel(kernel(second))
        await bench.until_state(second, S.COMPLETED)
        with pytest.raises(StateConflict):
            await bench.service.sessions.cancel_session(CALLER, second, None)


async def test_sessions_survive_a_server_restart(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=2)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a")
        running = await bench.submit(devices=1)
        await bench.until_state(running, S.RUNNING)
        ends_meanwhile = await bench.submit(devices=1)
        await bench.until_state(ends_meanwhile, S.RUNNING)
        waiting = await bench.submit(devices=1)
    executor.end_kernel(kernel(ends_meanwhile), code=5)
    async with service_on(tmp_path, executor) as bench:
        assert (await bench.until_state(ends_meanwhile, S.FAILED)).exit_code == 5
        await bench.until_state(waiting, S.RUNNING)
        assert bench.session(running).state is S.RUNNING
        executor.repeat_report(kernel(ends_meanwhile))
        executor.end_kernel(kernel(running))
        await bench.until_state(running, S.COMPLETED)
    assert executor.agents[AgentId("a")].starts == [kernel(running), kernel(ends_meanwhile), kernel(waiting)]


async def test_an_order_that_was_not_delivered_is_sent_when_the_agent_is_back(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a")
        executor.silent.add(AgentId("a"))
        session = await bench.submit(devices=1)
        await bench.until_state(session, S.ALLOCATING)
        executor.reconnect_agent(AgentId("a"))
        await bench.until_state(session, S.RUNNING)


async def test_a_session_refused_by_an_agent_starts_on_another_agent(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1), agent("b", devices=1)])
    executor.agents[AgentId("a")].refuse = KernelReport(
        kernel_id=KernelId(""), phase=KernelPhase.REFUSED, at_us=0, code="unsupported_resource", message="no such slot"
    )
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a", "b")
        session = await bench.submit(devices=1)
        running = await bench.until_state(session, S.RUNNING)
        assert running.excluded_agents == (AgentId("a"),)
        assert (running.attempt, running.retries) == (2, 0)
        assert bench.state.kernels[kernel(session, attempt=2)].agent_id == "b"


async def test_without_agents_a_valid_session_is_accepted_and_waits(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        session = await bench.submit(shares="0.5")
        await bench.service.allocator.run_once()
        assert bench.state.verdicts[session].reason is Reason.CLUSTER_UNAVAILABLE


async def test_a_session_waits_for_its_dependencies_and_fails_if_one_cannot_be_met(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=4)])
    async with service_on(tmp_path, executor) as bench:
        await join(bench, "a")
        first = await bench.submit(devices=1)
        after_ok = await bench.submit(devices=1, depends_on=[(first, "after_ok")])
        after_fail = await bench.submit(devices=1, depends_on=[(first, "after_fail")])
        await bench.until_state(first, S.RUNNING)
        await bench.service.allocator.run_once()
        assert bench.state.verdicts[after_ok].reason is Reason.DEPENDENCY
        executor.end_kernel(kernel(first), code=1)
        assert (await bench.until_state(after_ok, S.FAILED)).failure.code == "dependency"  # type: ignore[union-attr]
        await bench.until_state(after_fail, S.RUNNING)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"slots": [("cuda.device", "9")]}, ImpossibleRequest),
        ({"slots": [("cuda.device", "1")], "cluster_size": 3}, ImpossibleRequest),
        ({"slots": [("cuda.shares", "0.005")]}, NotMultipleOfQuantum),
        ({"slots": [("cuda.shares", "0.1234")]}, NotMultipleOfQuantum),
        ({"slots": [("tpu.device", "1")]}, UnknownSlot),
        ({"slots": [("cuda.shares", "-1")]}, InvalidAmount),
        ({"slots": [("cuda.shares", "NaN")]}, InvalidAmount),
        ({"argv": ("x" * 1_000_000,)}, LimitExceeded),
        ({"depends_on": [("ses_none", "after_ok")]}, UnknownDependency),
    ],
)
async def test_invalid_session_requests_are_refused_on_submission(
    tmp_path: Path, change: dict[str, object], error: type[Exception]
) -> None:
    async with service_on(tmp_path, FakeExecutor([agent("a", devices=2)])) as bench:
        await join(bench, "a")
        request = {"argv": ("true",), "shell": None, "slots": [("cuda.device", "1")]} | change
        before = bench.state.revision
        with pytest.raises(error) as refused:
            await bench.service.sessions.create_session(CALLER, NewSession(**request))  # type: ignore[arg-type]
        if isinstance(refused.value, NotMultipleOfQuantum):
            assert refused.value.quantum == "0.01"
            assert refused.value.message.endswith(" is not a multiple of 0.01")
        assert bench.state.revision == before


async def test_an_idempotency_key_returns_the_first_session_and_refuses_a_different_request(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([agent("a", devices=1)])) as bench:
        await join(bench, "a")
        first = await bench.submit(devices=1, idempotency_key="k")
        assert await bench.submit(devices=1, idempotency_key="k") == first
        with pytest.raises(IdempotencyMismatch):
            await bench.submit(shares="0.5", idempotency_key="k")


async def test_a_version_that_was_overtaken_is_refused(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        session = await bench.submit(devices=1)
        changed = await bench.service.sessions.update_session_priority(CALLER, session, "high", 1)
        assert changed.session.version == 2
        with pytest.raises(VersionConflict):
            await bench.service.sessions.cancel_session(CALLER, session, 1)
        with pytest.raises(NotFound):
            await bench.service.sessions.cancel_session(CALLER, "ses_none", None)


async def test_several_sessions_get_a_priority_together_or_none_does(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        first, second, third = [await bench.submit(devices=1) for _ in range(3)]
        service = bench.service.sessions
        await service.update_session_priority(CALLER, second, "high", None)
        assert (await service.update_session_priorities(CALLER, [first, second], "high")).changed == 1
        await service.cancel_session(CALLER, third, None)
        with pytest.raises(StateConflict, match=third):
            await service.update_session_priorities(CALLER, [first, second, third], "low")
        with pytest.raises(Forbidden):
            await service.update_session_priorities(
                replace(CALLER, user=UserId("other"), role=Role.USER), [first, second], "low"
            )
        assert {bench.state.sessions[SessionId(one)].priority for one in (first, second)} == {Priority.HIGH}
        with pytest.raises(InvalidRequest):
            await service.update_session_priorities(CALLER, [], "low")
        with pytest.raises(LimitExceeded, match="1001 sessions, the limit is 1000"):
            await service.update_session_priorities(CALLER, [first] * 1001, "low")


async def test_an_action_on_several_sessions_is_refused_only_for_those_that_it_does_not_suit(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        first, ended, second = [await bench.submit(devices=1) for _ in range(3)]
        service = bench.service.sessions
        await service.cancel_session(CALLER, ended, None)
        ids = (first, ended, "ses_none", second, first)
        held = await service.change_sessions(CALLER, SessionsAction(ids=ids, action=SessionAction.HOLD))
        assert [(one.id, one.code) for one in held.results] == [
            (first, None), (ended, "state_conflict"), ("ses_none", "not_found"), (second, None)
        ]  # fmt: skip
        assert (held.refused, held.revision) == (2, bench.state.revision)
        assert [one.session.state for one in held.results if one.session] == [S.HELD, S.HELD]
        asked = SessionsAction(ids=(first, second), action=SessionAction.SET_PRIORITY, priority="low")
        other = replace(CALLER, user=UserId("other"), role=Role.USER)
        assert [one.code for one in (await service.change_sessions(other, asked)).results] == ["forbidden"] * 2
        assert (await service.change_sessions(CALLER, asked)).refused == 0
        assert {bench.state.sessions[SessionId(one)].priority for one in (first, second)} == {Priority.LOW}


async def test_a_bulk_action_with_arguments_of_another_one_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with service_on(tmp_path, FakeExecutor([])) as bench:
        asked = SessionsAction(ids=(await bench.submit(devices=1),), action=SessionAction.CANCEL)
        service = bench.service.sessions
        for wrong in (
            replace(asked, priority="low"),
            replace(asked, from_checkpoint=True),
            replace(asked, action=SessionAction.SET_PRIORITY),
            replace(asked, ids=()),
        ):
            with pytest.raises(InvalidRequest):
                await service.change_sessions(CALLER, wrong)
        with pytest.raises(Forbidden, match="may only read"):
            await service.change_sessions(replace(CALLER, role=Role.VIEWER), asked)
        assert bench.state.sessions[SessionId(asked.ids[0])].state is S.QUEUED
