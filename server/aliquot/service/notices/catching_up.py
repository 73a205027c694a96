"""Catching up: where to begin to tell, when a log was not followed for long."""

from collections.abc import Sequence
from typing import Final, Protocol

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event

FAR: Final = 10_000
"""Events that are read one after another without a thought."""


class Log(Protocol):
    """See `Feed`."""

    revision: int

    async def page(self, after: int) -> Sequence[Event]: ...


async def first_recent(log: Log, *, after: int, since_us: int) -> int:
    """A number from which on nothing that happened since is missed; it is found by halving, so that years are not read
    because nobody was to be told for so long."""
    low, high = after, log.revision
    while high - low > FAR:
        middle = (low + high) // 2
        if await _is_before(log, middle, since_us=since_us):
            low = middle
        else:
            high = middle
    return low


async def _is_before(log: Log, number: int, *, since_us: int) -> bool:
    try:
        events = await log.page(number)
    except InvalidRequest:
        return True  # it was removed as too old
    return bool(events) and events[0].at_us < since_us
