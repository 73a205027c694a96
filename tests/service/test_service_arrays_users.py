"""Job arrays for users: how they end, how many tasks run, and cancellation and retries."""

from pathlib import Path

import pytest

from aliquot.service.state.snapshots import take
from aliquot_schema.ids import SessionId, kernel_id, task_id
from aliquot_schema.states import SessionState as S
from service_bench import CALLER as OWNER
from service_bench import agent, service_on
from service_fakes import FakeExecutor
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio


async def ends(on: Stage, array: SessionId, index: int, *, code: int = 0) -> None:
    """Let a task exit, with the consequences."""
    name = task_id(array, index=index)
    on.executor.end_kernel(kernel_id(name, attempt=on.session(name).attempt, rank=0), code=code)
    await on.settle()
    await on.advance()


def active(on: Stage, array: SessionId) -> list[int]:
    tasks = on.session(array).tasks
    assert tasks is not None
    return list(tasks.active)


async def test_no_more_tasks_than_the_parallel_limit_run_until_the_array_completes() -> None:
    async with stage([agent("a", devices=4)]) as on:
        array = await on.submit(array="0-4", max_parallel=2)
        follower = await on.submit(depends_on=[(array, "after_ok")])
        await on.advance()
        for index in range(5):
            assert active(on, array) == [one for one in (index, index + 1) if one < 5]
            assert on.session(follower).state is S.QUEUED
            await ends(on, array, index)
        assert (on.session(array).state, on.session(follower).state) == (S.COMPLETED, S.RUNNING)


async def test_an_array_fails_with_its_tasks_and_a_dependency_on_it_is_broken() -> None:
    async with stage([agent("a", devices=2)]) as on:
        array = await on.submit(array="3,7")
        follower = await on.submit(depends_on=[(array, "after_ok")])
        await on.advance()
        await ends(on, array, 3, code=1)
        assert on.session(array).state is S.RUNNING
        assert take(on.state).array_ends == {array: S.FAILED}
        await ends(on, array, 7)
        failed = on.session(array)
        assert (failed.state, failed.failure and failed.failure.message) == (S.FAILED, "1 of 2 tasks failed: 3")
        assert on.session(follower).state is S.FAILED


async def test_a_waiting_task_and_then_the_whole_array_can_be_canceled() -> None:
    async with stage([agent("a", devices=1)]) as on:
        array = await on.submit(array="0-3")
        await on.advance()
        for _ in range(2):
            await on.cancel(task_id(array, index=2))
        tasks = on.session(array).tasks
        assert tasks is not None
        assert (list(tasks.waiting), list(tasks.canceled)) == ([1, 3], [2])
        await on.cancel(array)
        assert (on.session(array).state, on.session(task_id(array, index=0)).state) == (S.CANCELED, S.CANCELED)
        await ends(on, array, 0)
        assert (active(on, array), on.held()) == ([], {})


@pytest.mark.parametrize("whole", [True, False])
async def test_tasks_that_have_left_memory_are_run_again_as_new_attempts(tmp_path: Path, whole: bool) -> None:
    executor = FakeExecutor([agent("a", devices=3)])
    async with service_on(tmp_path, executor, ended_kept=1) as bench:
        await bench.until(lambda: "a" in bench.state.reachable)
        array = await bench.submit(devices=1, array="0-2")
        tasks = [task_id(array, index=index) for index in range(3)]
        for task in tasks:
            await bench.until(lambda task=task: task in bench.state.sessions)  # type: ignore[misc]  # bound now
            await bench.until_state(task, S.RUNNING)
        for task in tasks:
            executor.end_kernel(kernel_id(task, attempt=1, rank=0), code=1)
        await bench.until(lambda: array not in bench.state.sessions or bench.session(array).state is S.FAILED)
        last = await bench.submit(devices=1)
        await bench.until_state(last, S.RUNNING)
        executor.end_kernel(kernel_id(last, attempt=1, rank=0))
        await bench.until_state(last, S.COMPLETED)
        assert list(bench.state.sessions) == [last]
        await bench.service.sessions.retry_session(OWNER, array if whole else tasks[1], None)
        for task in tasks if whole else tasks[1:2]:
            assert (await bench.until_state(task, S.RUNNING)).attempt == 2
        assert not bench.state.kept
