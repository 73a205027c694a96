"""Watching of what is numbered: one session, all devices, the event log."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aliquot.service.auditing.ports import AuditBook
from aliquot.service.feed import Feed
from aliquot.service.live.board import BEGUN_MAX, Board
from aliquot.service.live.device_changes import DeviceChanges
from aliquot.service.live.record import Record
from aliquot.service.live.session_moves import Find, SessionMoves
from aliquot.service.live.trails import Trails
from aliquot.service.state import State
from aliquot_schema.audit_views import ChangeView
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event
from aliquot_schema.live_views import DeviceUpdateView, Place, SessionUpdateView
from aliquot_schema.requests import Caller

SNAPSHOT_S: Final = 1.0
"""A session's place in line and expected start are another way without an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSources:
    """What is asked for what is followed."""

    find: Find
    """See `SessionMoves`."""
    book: Callable[[], AuditBook | None]
    """See `Record`."""
    now_us: Callable[[], int]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class LiveWatching:
    """Followers of one session, of all devices, and of the event log."""

    def __init__(self, *, state: State, feed: Feed, sources: LiveSources) -> None:
        self._log = feed
        self._board = Board(state, begun=secrets.randbelow(BEGUN_MAX))
        self._devices = DeviceChanges(self._board, sleep=sources.sleep)
        self._trails = Trails(feed)
        self._moves = SessionMoves(state=state, trails=self._trails, find=sources.find, now_us=sources.now_us)
        self._record = Record(feed=feed, book=sources.book)

    def hear(self, event: Event) -> None:
        """Take in what happened, once it is in the state."""
        self._trails.hear(event)
        self._board.hear(event)

    def place(self, stream: str, after: int | None) -> Place:
        """Where somebody begins who follows a numbered stream and says that he knows a number.

        Raises:
            InvalidRequest: the number is above the last event.
        """
        if stream == "device_updates":
            return self._devices.place(after)
        if stream == "session_updates":
            known = None if after is None else self.begun(after)
            return Place(known=known, newest=self._log.revision, snapshot_s=SNAPSHOT_S)
        return Place(known=self.begun(after), newest=self._log.revision)

    def begun(self, after: int | None) -> int:
        """The event above which to begin: now, unless a number is known.

        Raises:
            InvalidRequest: the number is above the last event.
        """
        newest = self._log.revision
        start = newest if after is None else after
        if not 0 <= start <= newest:
            raise InvalidRequest(f"after: {start} is not between 0 and {newest}", field="after")
        return start

    def session_updates(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """See `SessionMoves.follow`. Raises InvalidRequest, NotFound."""
        return self._moves.follow(caller, session_id, None if after is None else self.begun(after))

    def device_updates(self, caller: Caller, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """See `DeviceChanges.follow`."""
        return self._devices.follow(after)

    def events(self, caller: Caller, kinds: Sequence[str], after: int | None) -> AsyncIterator[ChangeView]:
        """See `Record.follow`. Raises Forbidden, InvalidRequest, Unavailable."""
        return self._record.follow(caller, self.begun(after), kinds)
