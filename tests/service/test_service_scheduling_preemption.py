"""Preemption, smaller requests, and job arrays, by plans made by hand."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Eviction, KernelPlacement, Placement, Plan
from aliquot_schema.ids import AgentId, KernelId, NodeId, SessionId, SlotName, UserId, kernel_id, task_id
from aliquot_schema.intervals import Intervals
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import ArrayTasks, Fallback, PreemptionCause
from aliquot_schema.states import SessionState as S
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio


def rank(session_id: SessionId, *, attempt: int = 1) -> KernelId:
    return kernel_id(session_id, attempt=attempt, rank=0)


async def runs(on: Stage, **more: Any) -> SessionId:
    """A running session; its arguments are written into its spec."""
    session_id = await on.submit()
    session = on.session(session_id)
    changed = replace(session, spec=replace(session.spec, **more))
    await on.journal.transact(lambda draft: draft.put(changed, "changed"), actor="ann")
    await on.advance()
    assert on.session(session_id).state is S.RUNNING
    return session_id


async def evicts(on: Stage, session_id: SessionId, *, grace_ms: int = 60_000) -> None:
    """Carry out a plan that preempts a session."""
    eviction = Eviction(
        session_id=session_id,
        version=on.session(session_id).version,
        cause=PreemptionCause.PRIORITY,
        by_session=SessionId("ses_other"),
        by_user=UserId("ben"),
        grace_ms=grace_ms,
    )
    await on.allocator.carry_out(Plan(evictions=(eviction,)))
    await on.settle()
    assert on.session(session_id).state is S.PREEMPTING


async def test_without_a_checkpoint_signal_a_preempted_session_is_stopped_and_requeued() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await runs(on)
        await evicts(on, session)
        assert on.executor.agents[AgentId("a")].stopped == [rank(session)]
        on.clock.advance(2)
        on.executor.end_kernel(rank(session), code=None, signal=15)
        await on.settle()
        waits = on.session(session)
        assert (waits.state, waits.preemptions, waits.retries, waits.attempt) == (S.QUEUED, 1, 0, 1)
        assert waits.preemption is not None
        assert waits.preemption.by_user == "ben"
        assert waits.preemption.lost_ms == pytest.approx(2_000_000, rel=0.01)
        await on.advance()
        assert (on.session(session).state, on.session(session).attempt) == (S.RUNNING, 2)


async def test_a_preempted_session_gets_its_checkpoint_signal_and_is_stopped_after_the_grace() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await runs(on, checkpoint_signal=10)
        await evicts(on, session)
        stopped = on.executor.agents[AgentId("a")].stopped
        _, wake_at_us = await on.allocator.run_once()
        receipt = on.session(session).preemption
        assert receipt is not None
        assert (stopped, wake_at_us) == ([], receipt.until_us)
        on.clock.advance(61)
        await on.advance()
        assert stopped == [rank(session)]
        on.executor.end_kernel(rank(session), code=None, signal=9)
        await on.settle()
        assert on.session(session).state is S.QUEUED


async def test_a_checkpoint_signal_is_sent_again_to_a_returning_agent_within_the_grace() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await runs(on, checkpoint_signal=10)
        await evicts(on, session)
        signals, once = on.executor.agents[AgentId("a")].signals, (rank(session), 10)
        on.executor.disconnect_agent(AgentId("a"))
        on.executor.reconnect_agent(AgentId("a"))
        await on.settle()
        assert signals == [once, once]
        on.clock.advance(61)
        on.executor.reconnect_agent(AgentId("a"))
        await on.settle()
        assert signals == [once, once]


@pytest.mark.parametrize(
    ("code", "signal", "state"), [(0, None, S.COMPLETED), (3, None, S.FAILED), (None, 10, S.QUEUED)]
)
async def test_a_preempted_session_that_ends_within_its_grace_keeps_its_own_result(
    code: int | None, signal: int | None, state: S
) -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await runs(on, checkpoint_signal=10)
        await evicts(on, session)
        on.executor.end_kernel(rank(session), code=code, signal=signal)
        await on.settle()
        assert (on.session(session).state, on.session(session).exit_code) == (state, code)
        assert on.held() == {}


async def test_an_eviction_with_an_outdated_session_version_is_ignored() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await runs(on)
        stale = Eviction(
            session_id=session,
            version=on.session(session).version - 1,
            cause=PreemptionCause.PRIORITY,
            by_session=None,
            by_user=UserId("ben"),
            grace_ms=1,
        )
        await on.allocator.carry_out(Plan(evictions=(stale,)))
        assert on.session(session).state is S.RUNNING


async def test_a_session_that_falls_back_requests_and_counts_fewer_resources() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await runs(on)
        waits = await on.submit()
        session = on.session(waits)
        less = Fallback(
            slots=ResourceSlot({SlotName("cuda.shares"): 500}), cluster_size=1, gpu_memory_bytes=None, after_ms=1
        )
        changed = replace(session, spec=replace(session.spec, fallbacks=(less,)))
        await on.journal.transact(lambda draft: draft.put(changed, "changed"), actor="ann")
        await on.allocator.carry_out(Plan(fallbacks={waits: 1}))
        assert on.session(waits).fallback_level == 1
        assert on.state.pending[waits].request == (("cuda.shares", 500),)
        assert sum(on.state.asked.values()) == 2
        assert on.state.asked[(SlotName("cuda.shares"), 500),] == 1


async def passes(on: Stage) -> None:
    """A pass without placements: plans made by hand carry its time."""
    reachable, on.state.reachable = on.state.reachable, set()
    await on.allocator.run_once()
    on.state.reachable = reachable


async def array_of(on: Stage, indices: str) -> SessionId:
    """A waiting job array."""
    session_id = await on.submit()
    tasks = ArrayTasks(waiting=Intervals.parse(indices))
    array = replace(on.session(session_id), tasks=tasks)
    await on.journal.transact(lambda draft: draft.put(array, "changed"), actor="ann")
    return session_id


async def starts(on: Stage, array: SessionId, *indices: int) -> list[SessionId]:
    """Carry out a plan that places these tasks, each on the device of its number."""
    await passes(on)
    placements = tuple(
        Placement(
            session_id=array,
            version=on.session(array).version,
            index=index,
            kernels=(
                KernelPlacement(
                    rank=0,
                    agent_id=AgentId("a"),
                    node_id=NodeId("node-a"),
                    spec={SlotName("cuda.device"): {on.state.agents[AgentId("a")].devices[index].id: 1}},
                ),
            ),
        )
        for index in indices
    )
    placed, _ = await on.allocator.carry_out(Plan(placements=placements))
    await on.settle()
    return list(placed)


async def test_the_results_of_all_tasks_determine_the_end_of_their_array() -> None:
    async with stage([agent("a", devices=3)]) as on:
        array = await array_of(on, "0-2")
        first, second = await starts(on, array, 0, 1)
        assert (first, second) == (task_id(array, index=0), task_id(array, index=1))
        assert (on.session(first).array_id, on.session(first).array_index, on.session(first).tasks) == (array, 0, None)
        assert on.session(array).state is S.QUEUED
        (third,) = await starts(on, array, 2)
        assert on.session(array).state is S.RUNNING
        on.executor.end_kernel(rank(first))
        on.executor.end_kernel(rank(second), code=1)
        await on.settle()
        tasks = on.session(array).tasks
        assert tasks is not None
        assert [str(part) for part in (tasks.active, tasks.completed, tasks.failed)] == ["2", "0", "1"]
        await evicts(on, third)
        on.executor.end_kernel(rank(third), code=None, signal=15)
        await on.settle()
        assert (on.session(third).state, on.session(array).state) == (S.QUEUED, S.RUNNING)
        await on.advance()
        on.executor.end_kernel(rank(third, attempt=2))
        await on.settle()
        assert (on.session(third).state, on.session(array).state) == (S.COMPLETED, S.FAILED)
        assert on.held() == {}


async def test_an_array_completes_when_all_tasks_completed() -> None:
    async with stage([agent("a", devices=2)]) as on:
        array = await array_of(on, "0-1")
        for task in await starts(on, array, 0, 1):
            on.executor.end_kernel(rank(task))
        await on.settle()
        assert on.session(array).state is S.COMPLETED


async def test_an_array_task_is_not_started_twice() -> None:
    async with stage([agent("a", devices=2)]) as on:
        array = await array_of(on, "0-1")
        assert await starts(on, array, 0, 0) == [task_id(array, index=0)]


async def test_a_session_submitted_during_a_pass_is_not_scheduled_before_its_submission_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage([agent("a", devices=1)]) as on:

        async def take_long() -> None:
            on.clock.advance(5)
            await on.submit()

        monkeypatch.setattr(on.allocator, "_stop_overdue", take_long)
        await on.allocator.run_once()
        on.check()
        (session,) = on.state.sessions.values()
        assert session.scheduled_us is not None
        assert session.scheduled_us > session.queued_us
        await on.settle()
