"""What retention asks of the world: history that is sealed, and then removed a little at a time."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from aliquot_schema.ids import SessionId


class Kind(StrEnum):
    """What is kept for a time of its own."""

    LEDGER = "ledger"
    EVENTS = "events"
    SESSIONS = "sessions"
    FINDINGS = "findings"
    ALERTS = "alerts"
    DELIVERIES = "deliveries"
    LEASES = "leases"


AT_ONCE: Final = 200
"""Rows removed in one transaction."""
CLOSED: Final = (Kind.FINDINGS, Kind.ALERTS, Kind.DELIVERIES, Kind.LEASES)
"""What is over by itself; of leases those that no kernel has, the others go with their sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What was archived, and may be removed from now on."""

    id: str
    """`<kind>-<number>`."""
    first: int
    """The first and the last event or pass; of others, when they ended, microseconds UTC."""
    last: int
    rows: int
    file: str | None
    """Where it was archived; None = it was not."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """What is to be removed by its id, with the versions that were archived."""


class HistoryDamaged(Exception):
    """What is to be archived is not what was written; nothing was archived, and nothing is removed."""


class Memory(Protocol):
    """The state, as far as what is removed may still be in it."""

    def forget(self, names: Iterable[SessionId]) -> Collection[SessionId]:
        """Let go of these, unless somebody needs them or is about to change them; those that nobody does."""


class History(Protocol):
    """The durable past. Every method may raise `StoreUnavailable`; those that write raise `NotLeader` in a later epoch
    than the one they were made for. A method that removes takes a few rows in a transaction of its own."""

    async def seal_ledger(self, before_us: int) -> Sealed | None:
        """Archive passes that are older, in whole stretches from checkpoint to checkpoint; None when there are none."""

    async def seal_events(self, before_us: int) -> Sealed | None:
        """Archive events that are older and that nobody needs: passes that can be replayed begin after them.

        Raises:
            HistoryDamaged: the chain is broken.
        """

    async def seal_sessions(self, before_us: int) -> Sealed | None:
        """Archive sessions that ended before, with their kernels, leases and holdings, once their events are gone.

        Those that a waiting session depends on stay, and an array goes with all of its tasks or not at all.
        """

    async def seal_closed(self, kind: Kind, before_us: int) -> Sealed | None:
        """Archive what of a kind of `CLOSED` was over before, leases with their holdings, once its events are gone."""

    async def remove_passes(self) -> int:
        """Remove the next few that are sealed; returns how many, 0 at the end."""

    async def remove_events(self) -> int:
        """As `remove_passes`."""

    async def remove_closed(self, kind: Kind, versions: Mapping[str, int]) -> int:
        """As `remove_sessions`, of a kind of `CLOSED`."""

    async def remove_sessions(self, versions: Mapping[SessionId, int]) -> int:
        """Remove these, with what belongs to them, unless they have another version now; returns how many went."""
