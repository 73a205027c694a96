"""What the ledger asks of the world, and what the allocator asks of the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aliquot.core.plan import Plan
from aliquot.core.policy import Policy
from aliquot.core.snapshot import Snapshot
from aliquot.service.ledger.entries import PassEntry
from aliquot_schema.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class PassKey:
    """What an entry is found by."""

    number: int
    revision: int
    has_checkpoint: bool


class LedgerStore(Protocol):
    """The durable ledger, append-only and hash-chained. Every method may raise `StoreUnavailable`."""

    async def append(self, entries: Sequence[PassEntry]) -> None:
        """Write entries in order; those that are there already are left as they are.

        Raises:
            NotLeader: they are of an epoch that is over; none was written.
        """

    async def missing(self) -> int:
        """Passes of epochs before this one that events tell of, and that come after the last entry."""

    async def follow(self) -> bool:
        """Take events into what is made of them for questions; returns whether there may be more to take in."""


class LedgerReader(Protocol):
    """What replays read."""

    async def last(self, count: int) -> tuple[PassKey, ...]:
        """The newest entries, oldest first."""

    async def checkpoint_before(self, number: int) -> PassKey | None:
        """The newest entry with a checkpoint that is not after this pass."""

    async def entries(self, *, first: int, last: int, limit: int) -> tuple[PassEntry, ...]:
        """Entries from one number to another, both included, in order; at most so many."""

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        """Events numbered above `number`, in order."""


class PassWatcher(Protocol):
    """Is told of every pass."""

    def begins(self, snapshot: Snapshot, rules: Policy) -> None:
        """A snapshot was taken, and nothing has happened since."""

    def ends(self, plan: Plan, *, number: int, now_us: int, seed: int) -> None:
        """The pass that began last has decided."""
