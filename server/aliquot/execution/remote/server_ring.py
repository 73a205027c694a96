"""Which of several servers an agent dials next: the one that is said to lead, else the next one in the list."""

from collections.abc import Sequence

from aliquot.errors import ConfigurationError
from aliquot.execution.remote.server_address import ServerAddress, server_address


class ServerRing:
    """Rounds through servers; a round ends when all were tried in vain since the last welcome."""

    def __init__(self, addresses: Sequence[ServerAddress]) -> None:
        """`addresses`: at least one, in the order in which they are tried."""
        self._addresses = tuple(addresses)
        self._place = 0
        self._tried: set[int] = set()
        self.has_followers = False
        """Whether a server answered in this round that another one leads, or is about to."""

    @property
    def present(self) -> ServerAddress:
        """The one to dial now."""
        return self._addresses[self._place]

    def welcomed(self) -> None:
        """The present one took the agent in."""
        self._tried.clear()
        self.has_followers = False

    def turn(self, *, is_follower: bool, leader: str) -> bool:
        """Go on from the present one; returns whether a round is over, and it is time to wait.

        Args:
            is_follower: whether it said that it does not lead.
            leader: the address it named; one that is not in the list is not followed: nobody vouches for it.
        """
        self._tried.add(self._place)
        self.has_followers |= is_follower
        count = len(self._addresses)
        order = [(self._place + step) % count for step in range(1, count + 1)]
        named = self._place_of(leader)
        wanted = [*([] if named is None else [named]), *order]
        fresh = [place for place in wanted if place not in self._tried]
        self._place = (fresh or wanted)[0]
        if not fresh:
            self._tried.clear()
        return not fresh

    def begin_round(self) -> None:
        """After a wait."""
        self.has_followers = False

    def _place_of(self, leader: str) -> int | None:
        try:
            url = server_address(leader).url
        except ConfigurationError:
            return None
        return next((place for place, known in enumerate(self._addresses) if known.url == url), None)
