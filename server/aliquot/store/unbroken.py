"""Work that goes on to its end when nobody waits for it any more.

A driver whose user is canceled in the middle leaves its connection half open, and drops it with a warning.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Unbroken:
    """Remembers what is under way."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it; a caller that is canceled goes, and the work goes on."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # told to the caller, if he is still there
