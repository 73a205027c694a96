"""Retried array tasks queue again: no more tasks run concurrently than the array allows."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from aliquot_schema.errors import NotFound, StateConflict
from aliquot_schema.ids import SessionId, kernel_id, task_id
from aliquot_schema.reasons import Reason
from aliquot_schema.requests import SessionAmendment
from aliquot_schema.sessions import HELD_BY_ARRAY, Priority
from aliquot_schema.states import SessionState as S
from service_bench import CALLER as OWNER
from service_bench import agent, service_on
from service_fakes import FakeExecutor
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio


async def end(on: Stage, names: Sequence[SessionId], *, code: int) -> None:
    """Let tasks exit, with the consequences."""
    for name in names:
        on.executor.end_kernel(kernel_id(name, attempt=on.session(name).attempt, rank=0), code=code)
    await on.settle()
    await on.advance()


def running(on: Stage) -> list[SessionId]:
    return [session.id for session in on.state.sessions.values() if session.state is S.RUNNING and not session.tasks]


async def failed_array(on: Stage, *, parallel: int) -> tuple[SessionId, list[SessionId]]:
    """An array whose four tasks have all failed."""
    array = await on.submit(array="0-3", max_parallel=parallel)
    await on.advance()
    while names := running(on):
        await end(on, names, code=1)
    assert on.session(array).state is S.FAILED
    return array, [task_id(array, index=index) for index in range(4)]


async def test_a_whole_array_that_is_retried_keeps_to_its_limit() -> None:
    async with stage([agent("a", devices=4)]) as on:
        array, tasks = await failed_array(on, parallel=2)
        await on.sessions.retry_session(OWNER, array, None)
        await on.advance()
        assert running(on) == tasks[:2]
        held = on.session(tasks[3])
        assert (held.state, held.held_by, on.state.verdicts[held.id].reason) == (
            S.HELD,
            HELD_BY_ARRAY,
            Reason.ARRAY_LIMIT,
        )
        await end(on, tasks[:1], code=0)
        assert running(on) == tasks[1:3]
        await end(on, tasks[1:3], code=0)
        await end(on, tasks[3:], code=0)
        assert on.session(array).state is S.COMPLETED
        assert [on.session(name).attempt for name in tasks] == [2, 2, 2, 2]


@pytest.mark.parametrize("size", [4, 12])
async def test_a_hold_of_an_array_holds_its_retried_tasks_too(size: int) -> None:
    """Of four tasks none waits without a session; of twelve, four run and four wait so."""
    async with stage([agent("a", devices=4)]) as on:
        array = await on.submit(array=f"0-{size - 1}")
        await on.advance()
        tasks = [task_id(array, index=index) for index in range(4)]
        await end(on, tasks, code=1)
        later = running(on)
        for name in tasks:
            await on.sessions.retry_session(OWNER, name, None)
        await on.sessions.hold_session(OWNER, array, None)
        await end(on, later, code=0)
        assert [on.session(name).state for name in tasks] == [S.HELD] * 4
        assert running(on) == []
        await on.sessions.release_session(OWNER, array, None)
        await on.advance()
        assert len(running(on)) == 4
        assert S.HELD not in {on.session(name).state for name in (array, *tasks)}


async def test_a_priority_of_an_array_is_that_of_its_retried_and_running_tasks_too() -> None:
    async with stage([agent("a", devices=2)]) as on:
        array = await on.submit(array="0-3")
        await on.advance()
        first = task_id(array, index=0)
        await end(on, [first], code=1)
        await on.sessions.retry_session(OWNER, first, None)
        await on.sessions.update_session_priority(CALLER, array, "low", None)
        names = [array, *(task_id(array, index=index) for index in range(3))]
        assert [on.session(name).state for name in names] == [S.QUEUED, S.QUEUED, S.RUNNING, S.RUNNING]
        assert {on.session(name).priority for name in names} == {Priority.LOW}
        await on.sessions.update_session_priority(OWNER, names[1], "normal", None)
        assert (await on.sessions.update_session_priorities(OWNER, [array], "low")).changed == 1, "a task of it"
        assert {on.session(name).priority for name in names} == {Priority.LOW}
        assert (await on.sessions.update_session_priorities(OWNER, [array], "low")).changed == 0


async def test_a_retried_task_waits_for_the_parallel_limit_of_its_array() -> None:
    async with stage([agent("a", devices=4)]) as on:
        array = await on.submit(array="0-2", max_parallel=1)
        await on.advance()
        first, second = task_id(array, index=0), task_id(array, index=1)
        await end(on, [first], code=1)
        assert running(on) == [second]
        await on.sessions.retry_session(OWNER, first, None)
        await on.advance()
        assert running(on) == [second]
        for change in (on.sessions.hold_session, on.sessions.release_session):
            with pytest.raises(StateConflict, match="starts it when fewer of its tasks run"):
                await change(OWNER, first, None)
        await end(on, [second], code=0)
        assert running(on) == [first]


async def test_a_task_that_waits_for_the_parallel_limit_can_be_canceled_alone_or_with_its_array() -> None:
    async with stage([agent("a", devices=4)]) as on:
        array, tasks = await failed_array(on, parallel=1)
        await on.sessions.retry_session(OWNER, array, None)
        await on.advance()
        await on.cancel(tasks[2])
        canceled = on.session(array).tasks
        assert canceled is not None
        assert (list(canceled.canceled), list(canceled.waiting)) == ([2], [1, 3])
        await on.cancel(array)
        await on.settle()
        assert {on.session(name).state for name in (array, *tasks)} == {S.CANCELED}
        assert on.state.pending == {}


async def test_changing_an_ended_session_that_left_memory_is_refused_with_its_state(tmp_path: Path) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(tmp_path, executor, ended_kept=1) as bench:
        await bench.until(lambda: "a" in bench.state.reachable)
        names = [await bench.submit(devices=1) for _ in range(3)]
        for name in names:
            await bench.until_state(name, S.RUNNING)
            executor.end_kernel(kernel_id(name, attempt=1, rank=0))
            await bench.until(lambda name=name: name not in bench.state.sessions or bench.session(name).is_ended)  # type: ignore[misc]  # bound now
        await bench.until(lambda: names[0] not in bench.state.sessions)
        sessions = bench.service.sessions
        for change in (sessions.cancel_session, sessions.hold_session, sessions.release_session):
            with pytest.raises(StateConflict, match="completed"):
                await change(OWNER, names[0], None)
        with pytest.raises(NotFound):
            await sessions.cancel_session(OWNER, "ses_of_nobody", None)
        assert not bench.state.kept


async def test_a_retried_task_follows_the_changed_request_of_its_array() -> None:
    """It is amended only through its array, whose changes apply to it."""
    async with stage([agent("a", devices=4)]) as on:
        array = await on.submit(devices=2, array="0-2", max_parallel=1)
        await on.advance()
        first, second = (task_id(array, index=index) for index in range(2))
        await end(on, [first], code=1)
        await on.sessions.retry_session(CALLER, first, None)
        fewer = SessionAmendment(slots=[("cuda.device", "1")])
        with pytest.raises(StateConflict, match="by the request of the array"):
            await on.sessions.update_session(CALLER, first, fewer, None)
        await on.sessions.update_session(CALLER, array, fewer, None)
        await end(on, [second], code=0)
        assert on.session(first).state is S.RUNNING
        assert len(on.held()) == 1
        assert dict(on.session(first).slots) == {"cuda.device": 1}


async def test_an_array_has_started_with_its_first_task() -> None:
    async with stage([agent("a", devices=1)]) as on:
        array = await on.submit(array="0-2")
        await on.advance()
        first_us = on.session(task_id(array, index=0)).scheduled_us
        assert first_us is not None
        while names := running(on):
            on.clock.advance(3600)
            assert on.session(array).started_us == first_us
            own_us = on.session(names[0]).started_us
            assert own_us is not None
            assert own_us >= on.clock.now_us() - 3_700_000_000
            await end(on, names, code=0)
        ended = on.session(array)
        assert (ended.state, ended.started_us) == (S.COMPLETED, first_us)
        await on.sessions.retry_session(OWNER, array, None)
        again_us = on.session(array).started_us
        assert again_us is not None
        assert again_us > first_us
