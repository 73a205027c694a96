"""The watch over the database: it is asked again and again, so that a silent one is noticed while nobody needs it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aliquot.service.measuring.store_counts import StoreMeasures
from aliquot.service.ports import Clock, StoreUnavailable

log: Final = logging.getLogger("aliquot.store")

ASK_S: Final = 5.0
ANSWER_S_MAX: Final = 10.0


async def watch_database(ask: Callable[[], Awaitable[object]], measures: StoreMeasures, *, clock: Clock) -> None:
    """Ask for ever, one question at a time.

    Args:
        ask: reads anything; the store itself counts how that went.
    """
    was_up = True
    while True:
        asking = asyncio.ensure_future(_asked(ask))
        try:
            # A question is never broken off: a connection that is being waited on cannot be used for another.
            done, _ = await asyncio.wait({asking}, timeout=ANSWER_S_MAX)
            if not done:
                measures.note_silence()
                await asking
        finally:
            asking.cancel()
        if measures.is_up != was_up:
            was_up = measures.is_up
            log.log(logging.WARNING, "the database %s", "answers again" if was_up else "does not answer")
        await clock.sleep(ASK_S)


async def _asked(ask: Callable[[], Awaitable[object]]) -> None:
    with suppress(StoreUnavailable):
        await ask()
