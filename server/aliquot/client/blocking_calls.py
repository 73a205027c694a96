"""Blocking calls of async functions: plain requests run in the caller's thread, streams on an event loop in its own.

The loop starts with the first stream, since importing it takes longer than most requests.

Ctrl-C can interrupt the waiting thread between any two instructions, so it must hold no lock that is written in Python
(those of `threading` and `concurrent.futures` are): left half released, it would block the loop for ever. It therefore
waits on a `SimpleQueue`, which is one instruction.
"""

import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

CLOSED: Final = "this client is closed; make a new one, or close it after its last use"
WAKE_S: Final = 0.25
"""Maximum delay of an interruption."""


class BlockingCalls:
    """Runs coroutines until `_end`; may be used from several threads."""

    def __init__(self) -> None:
        self._started: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._starting = threading.Lock()
        self._is_ended = False

    @property
    def _loop(self) -> "asyncio.AbstractEventLoop":
        """The event loop; runs from its first use on."""
        with self._starting:
            if self._started is None:
                import asyncio

                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="aliquot-client", daemon=True)
                thread.start()
                self._started = loop, thread
            return self._started[0]

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that awaits nothing but other coroutines, in this thread and without a loop.

        Raises:
            RuntimeError: the client is closed.
        """
        self._check_open(work)
        try:
            work.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        work.close()
        raise AssertionError("a plain request waited for an event loop")

    def _asked(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items of such a generator one by one."""
        try:
            while (item := self._ask(_next(items))) is not None:
                yield item
        finally:
            if not self._is_ended:
                self._ask(_closed(items))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result; an interruption of the wait cancels it.

        Raises:
            RuntimeError: the client is closed.
        """
        self._check_open(work)
        call = _Call(work)
        loop = self._loop
        try:
            loop.call_soon_threadsafe(call.begin)
            return call.result()
        except BaseException:
            loop.call_soon_threadsafe(call.cancel)
            raise

    def _each(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items one by one; leaving early closes the subscription."""
        steps = _Steps(items)
        try:
            while (item := self._run(steps.take())) is not None:
                yield item
        finally:
            if not self._is_ended:
                self._run(steps.close())

    def _check_open(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._is_ended:
            work.close()
            raise RuntimeError(CLOSED)

    def _end(self) -> None:
        self._is_ended = True
        if self._started is not None:
            loop, thread = self._started
            loop.call_soon_threadsafe(lambda: loop.create_task(_stopped(loop)))
            thread.join()
            loop.close()


async def _stopped(loop: "asyncio.AbstractEventLoop") -> None:
    """Stop the running loop, after its tasks and async generators have ended, as `asyncio.run` does."""
    import asyncio

    try:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await loop.shutdown_asyncgens()
    finally:
        loop.stop()


async def _next(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


class _Call(Generic[T]):
    """One call: started and canceled on the loop, awaited by another thread."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._ended: SimpleQueue[asyncio.Task[T]] = SimpleQueue()

    def begin(self) -> None:
        """Start it; on the loop."""
        import asyncio

        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._ended.put)

    def cancel(self) -> None:
        """Cancel it, started or not; on the loop."""
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()

    def result(self) -> T:
        """Wait for its end, and return the result.

        Raises:
            BaseException: as raised by the call.
        """
        while True:
            try:
                # A signal just before this thread starts to wait is only handled when it wakes.
                return self._ended.get(timeout=WAKE_S).result()
            except Empty:
                continue


class _Steps(Generic[T]):
    """A stream whose items are taken one by one, each in its own task."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._step: asyncio.Task[Any] | None = None

    async def take(self) -> T | None:
        """The next item; None at the end."""
        import asyncio

        self._step = asyncio.current_task()
        return await anext(self._items, None)

    async def close(self) -> None:
        """Close the stream. An interrupted caller may have left a running step behind."""
        if self._step is not None and not self._step.done():
            import asyncio

            self._step.cancel()
            await asyncio.wait([self._step])
        await self._items.aclose()
