"""Async calls made from code that is not async: they run on a loop in a thread of its own.

Ctrl-C may come between any two instructions of the thread that waits, so it must hold no lock that is
written in Python (those of `threading` and `concurrent.futures` are): one that it let go of halfway would
hold up the loop for ever. It waits on a `SimpleQueue`, which is one instruction.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

LOOK_UP_S: Final = 0.25
"""So long an interruption may go unseen."""


class BlockingCalls:
    """Has a loop from its first call until `close`; may be used from several threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aliquot-client", daemon=True)
        self._thread.start()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it. Whoever is interrupted meanwhile takes the call with him."""
        call = _Call(work)
        try:
            self._loop.call_soon_threadsafe(call.begin)
            return call.result()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise

    def _each(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """What comes, one by one; leaving early lets go of the subscription."""
        steps = _Steps(items)
        try:
            while (item := self._run(steps.take())) is not None:
                yield item
        finally:
            self._run(steps.close())

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Call(Generic[T]):
    """One call: begun and canceled on the loop, waited for by another thread."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._ended: SimpleQueue[asyncio.Task[T]] = SimpleQueue()

    def begin(self) -> None:
        """Begin it."""
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._ended.put)

    def cancel(self) -> None:
        """Call it off, begun or not."""
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()

    def result(self) -> T:
        """Wait for its end.

        Raises:
            BaseException: what it raised.
        """
        while True:
            try:
                # A signal that comes just before this thread begins to sleep is not seen until it wakes.
                return self._ended.get(timeout=LOOK_UP_S).result()
            except Empty:
                continue


class _Steps(Generic[T]):
    """A stream that is taken item by item, each in a task of its own."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._step: asyncio.Task[Any] | None = None

    async def take(self) -> T | None:
        """The next item; None at the end."""
        self._step = asyncio.current_task()
        return await anext(self._items, None)

    async def close(self) -> None:
        """Close the stream. Who was interrupted may have left a step behind before he could call it off."""
        if self._step is not None and not self._step.done():
            self._step.cancel()
            await asyncio.wait([self._step])
        await self._items.aclose()
