"""A full queue: no more tasks than the server keeps wait, and whoever comes then hears so."""

import pytest

from aliquot.service.sessions import submission_checks
from aliquot.service.use_cases import state_of
from aliquot_schema.errors import QueueFull
from leader_stage_stores import new_memory_store
from service_bench import agent
from service_stage import Stage, stage

pytestmark = pytest.mark.anyio


def room(on: Stage, tasks: int) -> None:
    """Keep only so many tasks in the queue."""
    on.sessions._creation._pending_max = tasks


async def test_an_array_counts_its_length_and_what_starts_makes_room() -> None:
    async with stage([agent("a", devices=2)]) as on:
        room(on, 4)
        await on.submit(array="0-2")
        await on.submit()
        assert on.state.tasks_pending == 4
        with pytest.raises(QueueFull) as refused:
            await on.submit()
        assert (refused.value.limit, refused.value.queued) == (4, 4)
        assert refused.value.retry_after > 0
        await on.advance()
        assert on.state.tasks_pending == 2
        await on.submit(array="0-1")
        with pytest.raises(QueueFull):
            await on.submit()


async def test_a_batch_is_kept_whole_or_not_at_all() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 2)
        revision = on.state.revision
        with pytest.raises(QueueFull):
            await on.submit(array="0-2")
        assert (on.state.revision, on.state.tasks_pending) == (revision, 0)


async def test_what_waits_is_counted_alike_after_every_step_and_after_a_restart() -> None:
    store = await new_memory_store()
    try:
        async with stage([agent("a", devices=2)], store=store) as on:
            array, held = await on.submit(array="0-3", max_parallel=1), await on.submit(held=True)
            steps = [on.advance, lambda: on.cancel(held), on.advance, lambda: on.cancel(array), on.advance]
            for step in steps:
                await step()  # type: ignore[no-untyped-call]  # a coroutine function
                waiting = [on.session(name) for name in on.state.pending]
                assert on.state.tasks_pending == sum(map(submission_checks.tasks_waiting, waiting))
                again = await state_of(await store.open(), store=store)
                assert again.tasks_pending == on.state.tasks_pending
    finally:
        await store.close()


async def test_the_usual_limit_is_100000() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.submit(array="0-99999")
        with pytest.raises(QueueFull) as refused:
            await on.submit()
        assert refused.value.limit == 100_000
