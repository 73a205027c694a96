"""The watch over the database: it is asked again and again, so that a silent one is noticed while nobody needs it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
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
    standing = _Standing(measures)
    while True:
        asking = asyncio.ensure_future(_asked(ask))
        try:
            # A question is never broken off: a connection that is being waited on cannot be used for another.
            done, _ = await asyncio.wait({asking}, timeout=ANSWER_S_MAX)
            if not done:
                measures.note_silence()
                standing.tell()
                await asking
        finally:
            asking.cancel()
        standing.tell()
        await clock.sleep(ASK_S)


class _Standing:
    """Says when the database goes away, and when it is there again."""

    def __init__(self, measures: StoreMeasures) -> None:
        self._measures = measures
        self._was_up = True

    def tell(self) -> None:
        """Say what is new."""
        is_up = self._measures.is_up
        if is_up != self._was_up:
            self._was_up = is_up
            log.log(
                logging.WARNING if is_up else logging.ERROR,
                "the database %s",
                "answers again" if is_up else "does not answer, or cannot be written",
            )


async def _asked(ask: Callable[[], Awaitable[object]]) -> None:
    try:
        await ask()
    except StoreUnavailable:
        pass  # the store has counted it
    except Exception as error:
        # Whatever it is, the watch goes on: without it nobody would notice the next silence.
        log.warning("the database gives an odd answer: %s: %s", type(error).__name__, error)
