"""Session updates: subscriptions to the state changes of one session and its kernels.

The newest events of each followed session are buffered, so that a follower need not scan the events of all sessions.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Final

from aliquot.service.access import kernel_seen, session_seen
from aliquot.service.state.journal import Feed
from aliquot.service.state.state import State
from aliquot.service.views.sessions import kernel_view, session_view
from aliquot.service.views.terms import moment
from aliquot_schema.errors import NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.requests import Caller
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.views.live import SessionUpdateView
from aliquot_schema.views.sessions import KernelView, SessionView

KEPT: Final = 128
"""Buffered events per session; followers that are further behind read the feed."""


class SessionEventBuffers:
    """Event buffers of the sessions that have followers."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.followed: dict[SessionId, _RecentEvents] = {}

    def on_event(self, event: Event) -> None:
        """Buffer an event, if its session has followers."""
        session_id = session_of(event)
        trail = self.followed.get(session_id) if session_id is not None else None
        if trail is not None:
            trail.append(event)

    async def follow(self, session_id: SessionId, after: int) -> AsyncGenerator[Event, None]:
        """Events of a session numbered above `after`, in order, without gaps or repeats; never ends.

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
                    continue  # more events may have left the buffer meanwhile
                for event in trail.above(position):
                    position = event.number
                    yield event
                if position >= trail.floor:
                    await trail.news(position)

    async def _before(self, floor: int, session_id: SessionId, *, after: int) -> AsyncGenerator[Event, None]:
        """Events of a session numbered above `after`, up to `floor`, where its buffer begins."""
        position = after
        while position < floor:
            found, position = await self._next(session_id, position)
            for event in found:
                if event.number <= floor:
                    yield event

    async def _next(self, session_id: SessionId, after: int) -> tuple[Sequence[Event], int]:
        """The next events of a session, and the number up to which they are complete."""
        if not self._feed.keeps(after):
            return await self._feed.stored_events_of(session_id, after)
        page = await self._feed.page(after)
        return [event for event in page if session_of(event) == session_id], page[-1].number

    @contextmanager
    def _followed(self, session_id: SessionId) -> Iterator["_RecentEvents"]:
        trail = self.followed.setdefault(session_id, _RecentEvents(self._feed.revision))
        trail.followers += 1
        try:
            yield trail
        finally:
            trail.followers -= 1
            if not trail.followers:
                del self.followed[session_id]


class _RecentEvents:
    """Events of one session numbered above `floor`."""

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
        """Wait for an event above a number."""
        while not self._events or self._events[-1].number <= position:
            await self._news.wait()


def session_of(event: Event) -> SessionId | None:
    """The session that an event concerns: the session, one of its kernels, or a lease of an external allocation."""
    match event.record:
        case Session(id=session_id) | Kernel(session_id=session_id):
            return session_id
        case Lease(kernel_id=None, session_id=session_id):
            return session_id
        case _:
            return None


Find = Callable[[Caller, str], Awaitable[SessionView | None]]
ID_CHARS_MAX: Final = 80


class SessionUpdates:
    """Subscriptions to sessions.

    Args:
        find: returns a session, in memory or stored, as the caller may see it.
        now_us: time of updates without an event.
    """

    def __init__(self, *, state: State, trails: SessionEventBuffers, find: Find, now_us: Callable[[], int]) -> None:
        self._state = state
        self._trails = trails
        self._find = find
        self._now_us = now_us

    async def follow(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """The current session, unless `after` is given; then every change of it and its kernels, without end.

        Raises:
            NotFound.
        """
        position = self._state.revision if after is None else after
        found = await self._find(caller, session_id)
        if found is None:
            short_id = session_id[:ID_CHARS_MAX]
            raise NotFound(f"there is no session {short_id}", kind="session", id=short_id)
        if after is None:
            yield self._snapshot(found, position)
        async with aclosing(self._trails.follow(SessionId(session_id), position)) as events:
            async for event in events:
                update = await self._update(caller, event, session_id)
                if update is not None:
                    yield update

    def _snapshot(self, view: SessionView, number: int) -> SessionUpdateView:
        at = moment(self._now_us())
        return SessionUpdateView(
            event_number=number, at=at, kind="snapshot", is_snapshot=True, session=view, kernel=None
        )

    async def _update(self, caller: Caller, event: Event, session_id: str) -> SessionUpdateView | None:
        """None when the session was deleted by retention meanwhile."""
        record = event.record
        if isinstance(record, Session):
            session: SessionView | None = session_seen(caller, session_view(self._state, record))
        else:
            session = await self._find(caller, session_id)
        if session is None:
            return None
        return SessionUpdateView(
            event_number=event.number,
            at=moment(event.at_us),
            kind=event.kind,
            is_snapshot=False,
            session=session,
            kernel=self._kernel(caller, record, session) if isinstance(record, Kernel) else None,
        )

    def _kernel(self, caller: Caller, kernel: Kernel, session: SessionView) -> KernelView:
        return kernel_seen(caller, kernel_view(self._state, kernel), session)
