"""Moves of one session: its states, and those of its kernels, as they are committed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from aliquot.service.live.trails import Trails
from aliquot.service.projection import kernel_view, session_view
from aliquot.service.projection_terms import moment
from aliquot.service.state import State
from aliquot.service.visibility import kernel_seen, session_seen
from aliquot_schema.errors import NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import Kernel
from aliquot_schema.live_views import SessionUpdateView
from aliquot_schema.requests import Caller
from aliquot_schema.sessions import Session
from aliquot_schema.views import KernelView, SessionView

Find = Callable[[Caller, str], Awaitable[SessionView | None]]
ID_CHARS_MAX: Final = 80


class SessionMoves:
    """Followers of sessions.

    Args:
        find: a session, however old, as somebody may see it.
        now_us: the time, for what is told without an event.
    """

    def __init__(self, *, state: State, trails: Trails, find: Find, now_us: Callable[[], int]) -> None:
        self._state = state
        self._trails = trails
        self._find = find
        self._now_us = now_us

    async def follow(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """How a session stands, unless a number is known; then every change of it and of its kernels, for ever.

        Raises:
            NotFound: there is no such session.
        """
        position = self._state.revision if after is None else after
        found = await self._find(caller, session_id)
        if found is None:
            shown = session_id[:ID_CHARS_MAX]
            raise NotFound(f"there is no session {shown}", kind="session", id=shown)
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
        """None when the session was removed as too old since somebody began to follow it."""
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
