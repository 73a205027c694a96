"""Open connections: closes sockets and streams when the credentials behind them end, and limits them per user.

Rights are evaluated once, when a connection opens. When its key is revoked or expires, its browser is signed out, or
its user is disabled or gets other rights, the connection is closed; clients that are still allowed reconnect with the
new rights. Streams that would not end by themselves also end when the server begins to stop.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aliquot.api.authentication import TokenAuth, caller_of
from aliquot.service.state.identities import AuthenticatedCaller
from aliquot_schema.events import Event
from aliquot_schema.identity.accounts import ApiKey, User
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller

TIMER_S_MAX: Final = 3600.0
"""Longest timer: the expiry of a key may be years ahead, so it is checked in steps."""


@dataclass(slots=True, eq=False)
class _OpenConnection:
    bearer: AuthenticatedCaller
    close: Callable[[bool], None]
    timer: asyncio.TimerHandle | None = None


class OpenConnections:
    """All connections of this server with their bearers."""

    def __init__(self, auth: TokenAuth) -> None:
        self._auth = auth
        self._held: dict[_OpenConnection, None] = {}
        self._endless: dict[Callable[[], None], None] = {}
        self._is_stopping = False

    @contextmanager
    def holding(self, bearer: AuthenticatedCaller, close: Callable[[bool], None]) -> Iterator[None]:
        """Register an open connection.

        Args:
            close: called once when the rights end, with True if the client may reconnect with other rights.
        """
        held = _OpenConnection(bearer, close)
        self._held[held] = None
        self._recheck(held)
        try:
            yield
        finally:
            self._release(held)

    @contextmanager
    def of_caller(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Register an open connection of a caller; `end` is called once when the rights end, immediately if they
        already have."""
        bearer = self._auth.holder(caller.key_id, sign_in_id=caller.sign_in_id)
        # Authentication may be a while ago: the body was read since.
        if bearer is None or caller_of(bearer, request_id=caller.request_id) != caller:
            end()
            yield
            return
        with self.holding(bearer, lambda _: end()):
            yield

    @contextmanager
    def until_stop(self, end: Callable[[], None]) -> Iterator[None]:
        """Register a stream that would not end by itself; `end` is called once when the server begins to stop."""
        self._endless[end] = None
        if self._is_stopping:
            end()
        try:
            yield
        finally:
            del self._endless[end]

    def stop(self) -> None:
        """End these streams: a listener that stops would wait for them."""
        self._is_stopping = True
        for end in list(self._endless):
            end()

    def note(self, event: Event) -> None:
        """Recheck the connections that an event concerns, after it was applied to the state."""
        if isinstance(event.record, User | ApiKey):
            name = event.record.id if isinstance(event.record, User) else event.record.user
            concerned = [
                held
                for held in self._held
                if (held.bearer.key_id or held.bearer.sign_in_id) and held.bearer.user == name
            ]
            for held in concerned:
                self._recheck(held)

    def _recheck(self, held: _OpenConnection) -> None:
        now = self._auth.holder(held.bearer.key_id, sign_in_id=held.bearer.sign_in_id)
        if now != held.bearer:
            self._release(held)
            held.close(now is not None)
        elif held.bearer.expires_us is not None:
            left_s = self._auth.seconds_to(held.bearer.expires_us)
            if held.timer is not None:
                held.timer.cancel()
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(min(max(left_s, 0.0) + 0.001, TIMER_S_MAX), self._recheck, held)

    def _release(self, held: _OpenConnection) -> None:
        self._held.pop(held, None)
        if held.timer is not None:
            held.timer.cancel()


def expire(time: asyncio.Timeout) -> None:
    """End the block of an `asyncio.timeout`; nothing more happens when it ends already."""
    if not time.expired():
        time.reschedule(0)


class OpenCounts:
    """Open connections of one kind on this server, by user."""

    def __init__(self, *, per_user: int) -> None:
        self._per_user = per_user
        self._open: Counter[UserId] = Counter()

    @property
    def total(self) -> int:
        """Connections of all users."""
        return self._open.total()

    def may_open(self, user: UserId) -> bool:
        """Whether the user may open one more. Count it before the next await."""
        return self._open[user] < self._per_user

    @contextmanager
    def counted(self, user: UserId) -> Iterator[None]:
        """Count a connection while it is open."""
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]
