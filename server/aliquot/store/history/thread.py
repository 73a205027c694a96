"""A thread with an event loop of its own: what history computes and waits for is no other loop's business."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

STOP_S_MAX: Final = 30.0


class LoopThread:
    """Begun by the first who needs it; a daemon, so that it never keeps the process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name=self._name, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run there and await it here. Whoever gives up waiting does not stop it."""
        assert self._loop is not None, "it was not started"
        running = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))
        running.add_done_callback(_hear)
        return await asyncio.shield(running)

    async def stop(self) -> None:
        """End it, with whatever still runs there."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, STOP_S_MAX)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


def _hear(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()  # told to whoever waits, if he is still there
