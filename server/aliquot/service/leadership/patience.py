"""Patience: how long a server that must lead waits for a seat that another one has."""

from typing import Final

from aliquot.service.ports import Clock
from aliquot_schema.errors import Unavailable

PATIENCE_S: Final = 15.0
"""Longer than it takes until the seat of a server that was frozen, or cut off, is free."""


class Patience:
    """Ends when the seat was another server's all the while."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def check(self, leader: str | None) -> None:
        """Note who has the seat.

        Raises:
            Unavailable: somebody has had it for too long.
        """
        if leader is None:
            self._since = None
            return
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > PATIENCE_S:
            raise Unavailable(
                f"{leader or 'another server'} leads this database, and a server with agents of its own must lead "
                "itself: give this one --no-local-agents, and its devices to `aliquot agent`"
            )
