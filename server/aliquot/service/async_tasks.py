"""Task cancellation: keeps cancellations that asyncio drops when they coincide with an exception or a result."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def raise_if_canceled() -> None:
    """Raise `CancelledError` if the current task was canceled; long-running loops call this.

    A cancellation is dropped by a `TaskGroup` when one of its tasks fails at the same moment, and by
    `asyncio.wait_for` in Python 3.11 when the result arrives at the same moment.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run work in a separate task, so that its task groups cannot consume cancellations of this task.

    A cancellation is forwarded to the work, and raised here after it has ended.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    task.result()
