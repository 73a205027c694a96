"""A cancel that came together with an error, or with a result, is lost on the way: loops look for it themselves."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def raise_if_canceled() -> None:
    """End a task that was told to end, and whose cancel somebody below took for something else.

    Task groups drop it when a task of theirs fails at that moment, and so does `asyncio.wait_for` in Python 3.11 when
    what it waits for is there.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do it in a task of its own, whose task groups leave the count of this one's cancels alone.

    A cancel goes on to it, and counts when it has ended, in whatever way.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    task.result()
