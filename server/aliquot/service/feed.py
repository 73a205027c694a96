"""The feed: committed events in order, for whoever follows them from a number on."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from aliquot.service.ports import Store
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId

KEPT: Final = 4096
"""Events kept in memory; who is further behind reads the store."""
PAGE: Final = 500


class Feed:
    """A ring of the newest events. A follower keeps only its own number, so a slow one costs nothing."""

    def __init__(self, store: Store, *, revision: int, kept: int = KEPT) -> None:
        self._store = store
        self._ring: deque[Event] = deque(maxlen=kept)
        self.revision = revision
        self._news = asyncio.Event()

    def publish(self, event: Event) -> None:
        """Append the next event."""
        self._ring.append(event)
        self.revision = event.number
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def reached(self, number: int) -> None:
        """Wait until an event number is in the state."""
        while self.revision < number:
            await self._news.wait()

    async def follow(self, after: int) -> AsyncGenerator[Event, None]:
        """Events numbered above `after`, in order, without gaps or repeats, for ever.

        Raises:
            InvalidRequest: the next event was archived.
        """
        position = after
        while True:
            for event in await self.page(position):
                position = event.number
                yield event
            await self.reached(position + 1)

    async def page(self, after: int) -> tuple[Event, ...]:
        """The next events numbered above `after`, at most `PAGE` of them; none if there are none yet.

        Raises:
            InvalidRequest: the next event was archived.
        """
        if after >= self.revision:
            return ()
        oldest = self._oldest
        if after + 1 < oldest:
            return _going_on(after, await self._store.events_after(after, limit=PAGE))
        skip = after + 1 - oldest
        return tuple(self._ring[index] for index in range(skip, min(skip + PAGE, len(self._ring))))

    def keeps(self, after: int) -> bool:
        """Whether all events numbered above `after` are in memory."""
        return after + 1 >= self._oldest

    async def stored_of(self, session_id: SessionId, after: int) -> tuple[tuple[Event, ...], int]:
        """The next events of one session, from the store, and the number up to which there are no others of it.

        Raises:
            InvalidRequest: the next event, of whatever, was archived.
        """
        seen = self.revision
        found = await self._store.events_of(session_id, after=after, limit=PAGE)
        # Asked for afterwards: had something been removed before the events were read, it is missing now.
        _going_on(after, await self._store.events_after(after, limit=1))
        last = found[-1].number if found else seen
        return found, last if len(found) == PAGE else max(seen, last)

    @property
    def _oldest(self) -> int:
        """The number of the oldest event in memory, or of the next one."""
        return self._ring[0].number if self._ring else self.revision + 1


def _going_on(after: int, events: tuple[Event, ...]) -> tuple[Event, ...]:
    if events and events[0].number != after + 1:
        oldest = events[0].number
        raise InvalidRequest(
            f"after: the events from {after + 1} to {oldest - 1} were removed as too old; begin after {oldest - 1}, or "
            "without a number at what happens now",
            field="after",
        )
    return events
