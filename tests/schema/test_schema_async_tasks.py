"""Work that continues after its caller is cancelled: results, errors, and the end of the loop."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from aliquot_schema.async_tasks import raise_if_canceled, run_shielded, to_its_end, wait_ended
from aliquot_schema.errors import Unavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Work:
    """Work that waits for a signal, and records its outcome."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = asyncio.Event()
        self.began = False
        self.has_ended = False
        self.cancellations = 0
        self._error = error

    async def run(self) -> str:
        self.began = True
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancellations += 1
            raise
        self.has_ended = True
        if self._error is not None:
            raise self._error
        return "found"


async def _shielded(work: Work, tasks: set[asyncio.Future[Any]] | None = None) -> str:
    return await run_shielded(work.run(), tasks=tasks)


async def _turns(count: int = 5) -> None:
    """Run all ready callbacks."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _canceled_caller(work: Work, tasks: set[asyncio.Future[Any]]) -> None:
    """Start work from a caller that is cancelled while it runs."""
    caller = asyncio.create_task(_shielded(work, tasks))
    await _turns()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_a_caller_gets_the_result() -> None:
    work, tasks = Work(), set[asyncio.Future[Any]]()
    caller = asyncio.create_task(_shielded(work, tasks))
    await _turns()
    assert len(tasks) == 1
    work.may_end.set()
    assert await caller == "found"
    assert tasks == set()


async def test_a_caller_gets_the_error() -> None:
    work = Work(error=ValueError("wrong"))
    work.may_end.set()
    with pytest.raises(ValueError, match="wrong"):
        await _shielded(work)


async def test_a_caller_that_was_cancelled_before_starts_the_work() -> None:
    work, tasks = Work(), set[asyncio.Future[Any]]()

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await _shielded(work, tasks)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(call())
    work.may_end.set()
    await asyncio.wait(tasks)
    assert (work.began, work.has_ended, work.cancellations) == (True, True, 0)


async def test_cancelling_the_caller_does_not_stop_the_work() -> None:
    work, tasks = Work(), set[asyncio.Future[Any]]()
    await _canceled_caller(work, tasks)
    assert not work.has_ended
    (running,) = tasks
    work.may_end.set()
    await _turns()
    assert (work.has_ended, work.cancellations, running.done(), tasks) == (True, 0, True, set())


async def test_a_caller_cancelled_twice_does_not_cancel_the_work() -> None:
    work, tasks = Work(), set[asyncio.Future[Any]]()

    async def call() -> str:
        try:
            return await _shielded(work, tasks)
        except asyncio.CancelledError:
            (running,) = tasks
            return str(await run_shielded(running))

    caller = asyncio.create_task(call())
    for _ in range(2):
        await _turns()
        caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert caller.cancelling() == 2
    work.may_end.set()
    await _turns()
    assert (work.has_ended, work.cancellations) == (True, 0)


async def test_a_timeout_of_the_caller_does_not_end_the_work() -> None:
    work = Work()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await _shielded(work)
    work.may_end.set()
    await _turns()
    assert (work.has_ended, work.cancellations) == (True, 0)


async def test_an_error_after_the_caller_has_gone_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    work, tasks = Work(error=ValueError("wrong")), set[asyncio.Future[Any]]()
    await _canceled_caller(work, tasks)
    work.may_end.set()
    await _turns()
    gc.collect()  # asyncio would log an error not retrieved
    (record,) = caplog.records
    assert record.getMessage() == "Work.run failed after its caller was cancelled: ValueError: wrong"
    assert tasks == set()


async def test_an_expected_error_after_the_caller_has_gone_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(error=Unavailable("not now"))
    await _canceled_caller(work, set())
    work.may_end.set()
    await _turns()
    gc.collect()
    assert (work.has_ended, caplog.records) == (True, [])


async def test_work_that_is_cancelled_itself_cancels_its_caller() -> None:
    work, tasks = Work(), set[asyncio.Future[Any]]()
    caller = asyncio.create_task(_shielded(work, tasks))
    await _turns()
    (running,) = tasks
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.cancellations == 1


async def test_work_is_not_collected_as_garbage_when_its_caller_has_gone() -> None:
    """The loop holds tasks weakly, and only its own future references this work."""
    futures: list[weakref.ref[asyncio.Future[None]]] = []
    ended: list[bool] = []

    async def work() -> None:
        own = asyncio.get_running_loop().create_future()
        futures.append(weakref.ref(own))
        await own
        ended.append(True)

    async def call() -> None:
        await run_shielded(work())

    caller = asyncio.create_task(call())
    await _turns()
    caller.cancel()
    await asyncio.wait({caller})
    del caller
    gc.collect()
    own = futures[0]()
    assert own is not None
    own.set_result(None)
    await _turns()
    assert ended == [True]


def test_without_a_loop_the_coroutine_is_closed() -> None:
    work = _nothing()
    with pytest.raises(RuntimeError, match="no running event loop"):
        run_shielded(work)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        work.send(None)


def test_a_loop_that_closes_ends_the_work_too(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    async def call() -> None:
        try:
            await run_shielded(work())
        except asyncio.CancelledError:
            steps.append("caller cancelled")
            raise

    async def main() -> None:
        asyncio.create_task(call())  # noqa: RUF006 # left to the end of the loop on purpose
        await _turns()

    asyncio.run(main())
    gc.collect()
    assert sorted(steps) == ["caller cancelled", "cleaned up"]
    assert caplog.records == []


async def test_waiting_ends_with_the_work_however_often_the_waiter_is_cancelled() -> None:
    work = Work(error=ValueError("retrieved"))
    running = asyncio.ensure_future(work.run())
    waiter = asyncio.create_task(wait_ended(running))
    for _ in range(3):
        await _turns()
        waiter.cancel()
    await _turns()
    assert not waiter.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert (work.has_ended, work.cancellations) == (True, 0)


async def test_each_cancellation_is_forwarded_to_work_run_to_its_end() -> None:
    taken: list[str] = []

    async def work() -> None:
        for attempt in ("first", "second"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                taken.append(attempt)

    caller = asyncio.create_task(to_its_end(work()))
    await _turns()
    caller.cancel()
    await _turns()
    assert (taken, caller.done()) == (["first"], False)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert taken == ["first", "second"]


async def test_the_error_of_work_run_to_its_end_is_raised() -> None:
    work = Work(error=ValueError("wrong"))
    work.may_end.set()
    with pytest.raises(ValueError, match="wrong"):
        await to_its_end(_discarding(work))


async def test_a_cancellation_dropped_by_a_task_group_is_raised() -> None:
    """The group's own task fails just as the caller is cancelled."""

    async def fail(caller: asyncio.Task[Any]) -> None:
        caller.cancel()
        raise ValueError("wrong")

    async def call() -> str:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(task))
        except* ValueError:
            pass
        raise_if_canceled()
        return "dropped"

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(call())


async def test_without_a_cancellation_nothing_is_raised() -> None:
    raise_if_canceled()


async def _nothing() -> None:
    """Does nothing."""


def _discarding(work: Work) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        await work.run()

    return run()
