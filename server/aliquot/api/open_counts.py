"""How many sockets, or streams of events, everybody has open: nobody has too many."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aliquot_schema.ids import UserId


class OpenCounts:
    """Of one kind, on this server, by user."""

    def __init__(self, *, per_user: int) -> None:
        self._per_user = per_user
        self._open: Counter[UserId] = Counter()

    @property
    def total(self) -> int:
        """Of everybody together."""
        return self._open.total()

    def has_room(self, user: UserId) -> bool:
        """Whether somebody may open one more. To be counted in the same go, so that none slips through between."""
        return self._open[user] < self._per_user

    @contextmanager
    def counted(self, user: UserId) -> Iterator[None]:
        """While it is open."""
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]
