"""A full queue: waiting tasks are limited, and further submissions are refused."""

import pytest
from msgspec.structs import replace

from aliquot.service.access import Trust
from aliquot.service.accounts.rate_limit import Rate, SubmissionRateLimit
from aliquot.service.sessions import submission_checks
from aliquot.service.sessions.batches import BATCH_SESSIONS_MAX
from aliquot.service.sessions.submission_checks import QueueLimit
from aliquot.service.use_cases import state_of
from aliquot_schema.errors import Forbidden, LimitExceeded, QueueFull, RateLimited
from aliquot_schema.ids import KeyId, ProjectId, UserId, kernel_id, task_id
from aliquot_schema.requests import Caller, NewSession, Role
from leader_stage_stores import new_memory_store
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio
USER = replace(CALLER, role=Role.USER)


def room(on: Stage, tasks: int) -> None:
    """Limit the number of queued tasks."""
    on.sessions._creation._queue_limit = QueueLimit(tasks_max=tasks)


async def test_an_array_counts_with_all_tasks_and_started_tasks_free_places_in_the_queue() -> None:
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


async def test_an_array_larger_than_the_free_queue_is_refused_as_a_whole() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 2)
        revision = on.state.revision
        with pytest.raises(QueueFull):
            await on.submit(array="0-2")
        assert (on.state.revision, on.state.tasks_pending) == (revision, 0)


async def test_the_number_of_waiting_tasks_stays_correct_after_each_change_and_a_restart() -> None:
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


async def test_the_default_queue_limit_is_100000() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.submit(array="0-99999")
        with pytest.raises(QueueFull) as refused:
            await on.submit()
        assert refused.value.limit == 100_000


ANN, BOB, OLGA = (
    Caller(user=UserId(name), request_id="req_test", role=role)
    for name, role in (("ann", Role.USER), ("bob", Role.USER), ("olga", Role.OPERATOR))
)


async def submit(on: Stage, caller: Caller, *, tasks: int) -> None:
    """A held array."""
    request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], held=True, array=f"0-{tasks - 1}")
    await on.sessions.create_session(caller, request)


async def test_a_user_who_filled_the_queue_alone_does_not_keep_others_out() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 10)
        await submit(on, ANN, tasks=10)
        with pytest.raises(QueueFull) as refused:
            await submit(on, ANN, tasks=1)
        assert (refused.value.limit, refused.value.queued) == (10, 10)
        await submit(on, BOB, tasks=5)
        for caller in (BOB, ANN):
            with pytest.raises(QueueFull, match="While other users wait too, one user may have 5 of the queue's 10"):
                await submit(on, caller, tasks=1)
        assert on.state.tasks_pending == 15


async def test_one_user_fills_half_of_the_queue_while_another_waits() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 10)
        await submit(on, BOB, tasks=1)
        with pytest.raises(QueueFull) as refused:
            await submit(on, ANN, tasks=6)
        assert (refused.value.limit, refused.value.queued) == (5, 0)
        await submit(on, ANN, tasks=5)
        await submit(on, BOB, tasks=4)
        with pytest.raises(QueueFull, match="the queue holds 10 of at most 10 waiting tasks, this adds 1"):
            await submit(on, replace(ANN, user=UserId("cyd")), tasks=1)


async def test_operators_have_room_on_top_of_a_queue_that_others_filled() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 10)
        await submit(on, ANN, tasks=5)
        await submit(on, BOB, tasks=5)
        await submit(on, OLGA, tasks=1)
        with pytest.raises(QueueFull):
            await submit(on, OLGA, tasks=1)


async def test_an_operator_alone_may_fill_the_queue_but_not_exceed_it() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 3)
        await submit(on, OLGA, tasks=3)
        with pytest.raises(QueueFull) as refused:
            await submit(on, OLGA, tasks=1)
        assert refused.value.limit == 3


async def test_the_share_of_one_user_can_be_set() -> None:
    async with stage([agent("a", devices=1)]) as on:
        on.sessions._creation._queue_limit = QueueLimit(tasks_max=10, user_share_pct=100)
        await submit(on, BOB, tasks=1)
        await submit(on, ANN, tasks=9)
        with pytest.raises(QueueFull, match="the queue holds 10 of at most 10"):
            await submit(on, ANN, tasks=1)


async def test_a_refused_batch_is_charged_as_one_submission() -> None:
    async with stage([agent("a", devices=1)]) as on:
        room(on, 4)
        on.sessions._rate_limit = SubmissionRateLimit(
            on.state.people, trust=Trust.SHARED, rate=Rate(per_minute=10), monotonic=lambda: 0.0
        )
        caller = replace(ANN, key_id=KeyId("key_ann"))
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")])
        with pytest.raises(LimitExceeded):
            await on.sessions.create_sessions(caller, [request] * (BATCH_SESSIONS_MAX + 1))
        with pytest.raises(QueueFull):
            await on.sessions.create_sessions(caller, [request] * 9)
        for _ in range(3):
            await on.sessions.create_sessions(caller, [request] * 3)
            for name in list(on.state.pending):
                await on.cancel(name)
        with pytest.raises(RateLimited):
            await on.sessions.create_session(caller, request)


async def test_retried_sessions_count_against_the_queue_limit() -> None:
    async with stage([agent("a", devices=1)]) as on:
        ended = [await on.submit() for _ in range(3)]
        for name in ended:
            await on.cancel(name)
        room(on, 2)
        for name in ended[:2]:
            await on.sessions.retry_session(USER, name, None)
        with pytest.raises(QueueFull):
            await on.sessions.retry_session(USER, ended[2], None)
        assert on.state.tasks_pending == 2


async def test_all_tasks_of_a_retried_array_count_against_the_queue_limit() -> None:
    async with stage([agent("a", devices=3)]) as on:
        array = await on.submit(array="0-2")
        await on.advance()
        for index in range(3):
            on.executor.end_kernel(kernel_id(task_id(array, index=index), attempt=1, rank=0), code=1)
        await on.settle()
        room(on, 2)
        with pytest.raises(QueueFull):
            await on.sessions.retry_session(USER, array, None)
        room(on, 3)
        await on.sessions.retry_session(USER, array, None)


async def test_a_retry_in_a_project_requires_membership() -> None:
    async with stage([agent("a", devices=1)]) as on:
        await on.create_project("vision")
        member = replace(USER, projects=(ProjectId("vision"),))
        request = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], project="vision")
        name = (await on.sessions.create_session(member, request)).session.id
        await on.sessions.cancel_session(member, name, None)
        with pytest.raises(Forbidden, match="not a member of vision"):
            await on.sessions.retry_session(USER, name, None)
        await on.sessions.retry_session(member, name, None)
