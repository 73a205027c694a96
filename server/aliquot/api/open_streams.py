"""Streams of events that are open: each ends with the rights of its caller, and nobody has too many."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aliquot.api.held_open import HeldOpen
from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller

TOO_MANY_STREAMS: Final = "too_many_streams"


class OpenStreams:
    """Of this server, by user."""

    def __init__(self, held_open: HeldOpen, *, per_user: int) -> None:
        self._held_open = held_open
        self._per_user = per_user
        self._open: Counter[UserId] = Counter()

    def has_room(self, user: UserId) -> bool:
        """Whether somebody may open one more."""
        return self._open[user] < self._per_user

    @contextmanager
    def holding(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Count one, and hold it open, see `HeldOpen.of_caller`."""
        self._open[caller.user] += 1
        try:
            with self._held_open.of_caller(caller, end):
                yield
        finally:
            self._open[caller.user] -= 1
            if not self._open[caller.user]:
                del self._open[caller.user]
