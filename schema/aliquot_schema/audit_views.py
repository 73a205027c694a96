"""Read models for operators: what was done by whom, who held a device when, and which passes decided what."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which changes to list. None does not filter."""

    entity_id: str | None = None
    actor: str | None = None
    kind: str | None = None
    """`session.queued`, or the part before the point."""
    since: datetime | None = None
    until: datetime | None = None
    people_only: bool = False
    """Leave out what the server did by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFieldView:
    """One field of a record, before and after; values are JSON texts."""

    name: str
    before: str | None
    """None = the record was made by this change, or what was before was removed as too old."""
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """One event of the log."""

    number: int
    at: datetime
    kind: str
    entity_id: str
    actor: str
    request_id: str | None
    pass_number: int | None
    fields: tuple[ChangedFieldView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingView:
    """So much of one slot of one device, held by one lease from its grant to its release."""

    device_id: str
    slot: str
    amount: str
    kind: str
    lease_id: str
    agent_id: str
    session_id: str | None
    user: str
    since: datetime
    until: datetime | None
    """When it was given back; None = it is held."""
    evidence: str | None
    """Of the end."""
    pass_number: int | None
    """The pass that granted it."""
    preempted_at: datetime | None
    preempted_by: str | None
    """The session that starts in its place, or the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPassView:
    """A pass of the allocator that decided something new."""

    number: int
    at: datetime
    event_number: int
    """The last event that it knew of."""
    epoch: int
    code_version: str
    lost_before: int
    placed: tuple[str, ...]
    preempted: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reel(Generic[T]):
    """A piece of a record that may be long, the newest first: how many items match is not counted."""

    items: tuple[T, ...]
    cursors: tuple[str, ...]
    """One per item, opaque."""
    has_next: bool
    has_previous: bool
