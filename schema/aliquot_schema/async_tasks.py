"""Tasks and threads: work that goes on although its caller was cancelled, cancellations that asyncio drops, and worker
threads for blocking calls (disk, device drivers, /proc)."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from aliquot_schema.errors import AliquotError

P = ParamSpec("P")
T = TypeVar("T")

log: Final = logging.getLogger("aliquot.tasks")

_RUNNING: Final[set[asyncio.Future[Any]]] = set()
"""The event loop itself references its tasks only weakly."""


def run_shielded(
    work: Coroutine[Any, Any, T] | asyncio.Future[T], *, tasks: set[asyncio.Future[Any]] | None = None
) -> asyncio.Future[T]:
    """Run work to its end, even if the caller is cancelled: `found = await run_shielded(work())`.

    - The work starts in any case, also when the caller was cancelled and raises at its next `await`.
    - A cancelled caller raises `CancelledError` immediately, without waiting for the work. The work is not cancelled,
      however often the caller is.
    - An error of the work is raised in the caller. If the caller was cancelled before, an `AliquotError` is dropped,
      because the request that it answers is over; any other error is logged.
    - Cancelling the work itself cancels the caller. `asyncio.run` does that when it closes the event loop.

    Args:
        work: a coroutine, or a future of work in progress.
        tasks: contains the work until it has ended, for an owner who waits for it or cancels it.
    Raises:
        RuntimeError: no event loop is running. The coroutine is closed.
    """
    try:
        caller: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    except RuntimeError:
        if isinstance(work, Coroutine):
            work.close()
        raise
    running = asyncio.ensure_future(work)
    kept = _RUNNING if tasks is None else tasks
    kept.add(running)

    def end(ended: asyncio.Future[T]) -> None:
        kept.discard(ended)
        _pass_on(ended, caller)

    running.add_done_callback(end)
    return caller


def _pass_on(ended: asyncio.Future[T], caller: asyncio.Future[T]) -> None:
    if ended.cancelled():
        caller.cancel()
    elif (error := ended.exception()) is None:
        if not caller.done():
            caller.set_result(ended.result())
    elif not caller.done():
        caller.set_exception(error)
    elif not isinstance(error, AliquotError):
        log.warning("%s failed after its caller was cancelled: %s: %s", _name(ended), type(error).__name__, error)


def _name(work: asyncio.Future[Any]) -> str:
    coroutine = work.get_coro() if isinstance(work, asyncio.Task) else None
    return str(getattr(coroutine, "__qualname__", "work"))


async def wait_ended(work: asyncio.Future[Any], *, forwards: bool = False) -> None:
    """Wait until work has ended, even if the caller is cancelled meanwhile; the cancellation is raised afterwards.

    An error of the work is not raised, and counts as retrieved if the caller was cancelled.

    Args:
        forwards: whether to cancel the work too, each time the caller is cancelled.
    """
    canceled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            canceled = error
            if forwards:
                work.cancel()
    if canceled is not None:
        if not work.cancelled():
            work.exception()
        raise canceled


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run work in a separate task, so that its task groups cannot consume cancellations of this task.

    A cancellation is forwarded to the work, and raised here after it has ended.
    """
    task = asyncio.create_task(work)
    await wait_ended(task, forwards=True)
    task.result()


def raise_if_canceled() -> None:
    """Raise `CancelledError` if the current task was canceled; long-running loops call this.

    A cancellation is dropped by a `TaskGroup` when one of its tasks fails at the same moment, and by
    `asyncio.wait_for` in Python 3.11 when the result arrives at the same moment.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Worker:
    """A pool of four threads, and the background tasks of its owner."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix=name)
        self._tasks: set[asyncio.Future[Any]] = set()

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(*args, **kwargs))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task; the coroutine handles its own errors."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run_shielded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end even if the caller is cancelled; only `close` cancels it."""
        await run_shielded(work, tasks=self._tasks)

    async def close(self) -> None:
        """Cancel the background tasks and wait for the threads."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
