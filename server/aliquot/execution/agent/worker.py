"""A few threads for what blocks: the disk, the device drivers, /proc."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Runs blocking calls beside the event loop, and keeps the tasks that nobody waits for."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix=name)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it in a thread, and wait for its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(*args, **kwargs))

    def go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run by itself; it handles its own errors."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def see_through(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it to its end, even if the caller is canceled meanwhile."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel what runs by itself, and wait for what is in the threads."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
