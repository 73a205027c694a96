"""Standing: which of several servers leads, as one of them sees it."""

from dataclasses import dataclass
from enum import StrEnum


class ServerRole(StrEnum):
    """What a server does beside answering."""

    LEADER = "leader"
    """It decides, launches, and listens to agents."""
    FOLLOWER = "follower"
    """It follows the log; another server leads, or is about to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of one server."""

    role: ServerRole
    address: str
    """Of this server; empty when nobody has told it."""
    leader_address: str | None
    """None: nobody leads now, or does not say where he is."""
    epoch: int
    """Of the newest term."""
    since_us: int | None
    """When that term began; None before the first."""
