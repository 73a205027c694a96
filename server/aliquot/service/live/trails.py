"""Trails: the newest events of each session that somebody follows, so that nobody looks at the events of others."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Final

from aliquot.service.feed import Feed
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.sessions import Session

KEPT: Final = 128
"""Events of one session; who is further behind reads the feed."""


class Trails:
    """By session, as long as somebody follows it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._trails: dict[SessionId, _Trail] = {}

    def hear(self, event: Event) -> None:
        """Take in the next event."""
        session_id = session_of(event)
        trail = self._trails.get(session_id) if session_id is not None else None
        if trail is not None:
            trail.append(event)

    async def follow(self, session_id: SessionId, after: int) -> AsyncGenerator[Event, None]:
        """Events of a session numbered above `after`, in order, without gaps or repeats, for ever.

        Raises:
            InvalidRequest: the next event was archived.
        """
        position = after
        with self._followed(session_id) as trail:
            while True:
                if position < trail.floor:
                    floor = trail.floor
                    async with aclosing(self._before(floor, session_id, after=position)) as events:
                        async for event in events:
                            yield event
                    position = floor
                    continue  # more may have fallen off the trail while these were told
                for event in trail.above(position):
                    position = event.number
                    yield event
                if position >= trail.floor:
                    await trail.news(position)

    async def _before(self, floor: int, session_id: SessionId, *, after: int) -> AsyncGenerator[Event, None]:
        """Events of a session above `after`, up to the one from which on its trail has them."""
        position = after
        while position < floor:
            found, position = await self._next(session_id, position)
            for event in found:
                if event.number <= floor:
                    yield event

    async def _next(self, session_id: SessionId, after: int) -> tuple[Sequence[Event], int]:
        """The next events of a session, and the number up to which there are no others of it."""
        if not self._feed.keeps(after):
            return await self._feed.stored_of(session_id, after)
        page = await self._feed.page(after)
        return [event for event in page if session_of(event) == session_id], page[-1].number

    @contextmanager
    def _followed(self, session_id: SessionId) -> Iterator["_Trail"]:
        trail = self._trails.setdefault(session_id, _Trail(self._feed.revision))
        trail.followers += 1
        try:
            yield trail
        finally:
            trail.followers -= 1
            if not trail.followers:
                del self._trails[session_id]


class _Trail:
    """The events of one session above `floor`."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.followers = 0
        self._events: deque[Event] = deque()
        self._news = asyncio.Event()

    def append(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) > KEPT:
            self.floor = self._events.popleft().number
        news, self._news = self._news, asyncio.Event()
        news.set()

    def above(self, position: int) -> tuple[Event, ...]:
        return tuple(event for event in self._events if event.number > position)

    async def news(self, position: int) -> None:
        """Wait until there is an event above a number."""
        while not self._events or self._events[-1].number <= position:
            await self._news.wait()


def session_of(event: Event) -> SessionId | None:
    """The session that an event is of: it or a kernel of it moved, or, of work outside, what it holds."""
    match event.record:
        case Session(id=session_id) | Kernel(session_id=session_id):
            return session_id
        case Lease(kernel_id=None, session_id=session_id):
            return session_id
        case _:
            return None
