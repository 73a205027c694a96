"""Worker threads: run blocking calls (disk, device drivers, /proc) outside the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from aliquot_schema.async_tasks import run_shielded

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """A pool of four threads, and the agent's background tasks."""

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
