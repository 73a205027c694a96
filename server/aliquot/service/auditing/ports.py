"""What auditing asks of the database. Times are microseconds UTC."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aliquot.service.ledger.entries import PassEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which changes to list. None does not filter."""

    entity_id: str | None = None
    actor: str | None = None
    kind: str | None = None
    """`session.queued`, or the part before the point."""
    first_us: int | None = None
    last_us: int | None = None
    people_only: bool = False
    """Leave out what the server did by itself."""
    before: int | None = None
    """Numbers below this one alone."""
    after: int = 0
    """Numbers above this one alone."""
    kinds: tuple[str, ...] = ()
    """Each as `kind`; one of them has to be it."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One event. Values of environments and digests of keys are not in it."""

    number: int
    at_us: int
    kind: str
    entity_id: str
    actor: str
    request_id: str | None
    pass_number: int | None
    before: Mapping[str, Any] | None
    """The fields that have another value now; None = it was made by this event, or what told of it before was removed
    as too old."""
    after: Mapping[str, Any]
    """The same fields; all of them, when nothing is known of before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """So much of one slot of one device, in the slot's base unit, held by one lease."""

    lease_id: str
    device_id: str
    slot: str
    kind: str
    agent_id: str
    session_id: str | None
    owner: str
    amount: int
    from_us: int
    until_us: int | None
    """When it is to be given back."""
    ended_us: int | None
    """When it was given back."""
    evidence: str | None
    pass_number: int | None
    granted_event: int
    ended_event: int | None
    preempted_us: int | None
    preempted_by: str | None
    preempted_pass: int | None


class AuditBook(Protocol):
    """The record. Every method may raise `StoreUnavailable`."""

    async def changes(self, query: AuditQuery) -> tuple[Change, ...]:
        """The newest changes, oldest first."""

    async def held_at(self, device_id: str, at_us: int) -> tuple[Holding, ...]:
        """Who held a device at a moment, in the order of the grants; the whole log is known by then, and archives too.

        Raises:
            StoreUnavailable: besides, where an archive is needed that cannot be read; the message says from when on
                it is known without.
        """

    async def passes(self, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
        """The newest passes in the ledger below a number, oldest first, without their checkpoints."""
