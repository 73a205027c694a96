"""Beginning a coroutine at once: only one that has to wait costs a task."""

import asyncio
import types
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any


def begin(coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run a coroutine as far as it comes without waiting.

    Python 3.12's eager tasks do the same, but make a task even for what ends at once.

    Returns:
        None when it ended; else the task that runs the rest of it.
    Raises:
        What the coroutine raises before it has to wait.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_rest(coroutine, awaited))


async def _rest(coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _go_on(coroutine, awaited)


@types.coroutine
def _go_on(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Hand on what the coroutine waits for, until it ends."""
    while True:
        try:
            woken = yield awaited
        except BaseException as error:  # a cancel, most of all: it is the coroutine's to hear of
            step = partial(coroutine.throw, error)
        else:
            step = partial(coroutine.send, woken)
        try:
            awaited = step()
        except StopIteration:
            return
