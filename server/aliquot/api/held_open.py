"""What is held open by keys: sockets and streams, which end as soon as the key behind them does.

What a caller may do is found out once, when he comes in. When the key is revoked or too old, or its user is disabled or
given other rights, whatever was opened by it is closed; who may still come in does so anew, with the new rights.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aliquot.api.authentication import TokenAuth, caller_of
from aliquot.service.people import Bearer
from aliquot_schema.accounts import ApiKey, User
from aliquot_schema.events import Event
from aliquot_schema.requests import Caller

LOOKED_AT_S: Final = 3600.0
"""Timers of asyncio are not made for years: the end of a key is waited for in steps."""


@dataclass(slots=True, eq=False)
class _Held:
    bearer: Bearer
    close: Callable[[bool], None]
    timer: asyncio.TimerHandle | None = None


class HeldOpen:
    """Everything that was opened by a key, on this server."""

    def __init__(self, auth: TokenAuth) -> None:
        self._auth = auth
        self._held: dict[_Held, None] = {}

    @contextmanager
    def holding(self, bearer: Bearer, close: Callable[[bool], None]) -> Iterator[None]:
        """Hold something open for somebody.

        Args:
            close: called once, when the rights end; told whether the caller may come in again, with others.
        """
        held = _Held(bearer, close)
        self._held[held] = None
        self._look_at(held)
        try:
            yield
        finally:
            self._let_go(held)

    @contextmanager
    def of_caller(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Hold something open for a caller; `end` is called once, when his rights end, or at once if they have."""
        bearer = self._auth.holder(caller.key_id)
        # The caller may have been let in a while ago, before the body came.
        if bearer is None or caller_of(bearer, request_id=caller.request_id) != caller:
            end()
            yield
            return
        with self.holding(bearer, lambda _: end()):
            yield

    def note(self, event: Event) -> None:
        """Take in what happened, once it is in the state."""
        if isinstance(event.record, User | ApiKey):
            name = event.record.id if isinstance(event.record, User) else event.record.user
            for held in [held for held in self._held if held.bearer.key_id and held.bearer.user == name]:
                self._look_at(held)

    def _look_at(self, held: _Held) -> None:
        key_id = held.bearer.key_id
        now = self._auth.holder(key_id)
        if now != held.bearer:
            self._let_go(held)
            held.close(now is not None)
        elif held.bearer.expires_us is not None:
            left_s = self._auth.seconds_to(held.bearer.expires_us)
            if held.timer is not None:
                held.timer.cancel()
            loop = asyncio.get_running_loop()
            held.timer = loop.call_later(min(max(left_s, 0.0) + 0.001, LOOKED_AT_S), self._look_at, held)

    def _let_go(self, held: _Held) -> None:
        self._held.pop(held, None)
        if held.timer is not None:
            held.timer.cancel()
