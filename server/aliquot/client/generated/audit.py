"""Audit.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


class ChangedField(Struct, frozen=True, kw_only=True):
    """Change of one field of a record. Values are JSON text."""

    name: str
    """The field."""
    before: str | None
    """Previous value; null if the change created the record, or the previous state is past retention."""
    after: str
    """New value."""


class AuditChange(Struct, frozen=True, kw_only=True):
    """A change: one event of the event log."""

    number: int
    """Number of the event; ascending without gaps."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened: `session.queued`, `lease.granted`, ..."""
    entity_id: str
    """Id of the changed object."""
    actor: str
    """A user, or a part of the server as `system:PART`."""
    api_key: str | None
    """Name of the API key that the user's request came with; null for a sign-in and for the server."""
    request_id: str | None
    """The request that caused it."""
    pass_number: int | None
    """The scheduling pass that decided it."""
    fields: tuple[ChangedField, ...]
    """
    Changed fields; all fields if the change created the record. Values of environment variables are not shown; commands
    of sessions are shown to admins only.
    """


class AuditFilterInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Filter of changes. Fields that are null match all changes."""

    entity_id: str | None = None
    """Id of a session, lease, agent, quota, ..."""
    actor: str | None = None
    """A user, or `system:PART`."""
    kind: str | None = None
    """`session`, `lease`, ..., or `session.queued`, ..."""
    since: datetime | None = None
    """Earliest time, included."""
    until: datetime | None = None
    """Latest time, included."""
    people_only: bool = False
    """Only changes made by users."""


class DeviceHolding(Struct, frozen=True, kw_only=True):
    """An amount of one slot of one device, held by one lease from grant to release."""

    device_id: str
    """The device."""
    slot: str
    """The slot."""
    amount: str
    """The amount."""
    kind: str
    """Kind of the lease."""
    lease_id: str
    """The lease."""
    agent_id: str
    """The agent of the grant."""
    session_id: str | None
    """The session; null for a lease without one."""
    user: str
    """The holder."""
    since: datetime
    """When it was granted."""
    until: datetime | None
    """When it was released; null while it is held."""
    evidence: str | None
    """Evidence of its end; null while it is held."""
    pass_number: int | None
    """The scheduling pass that granted it."""
    preempted_at: datetime | None
    """When it was preempted."""
    preempted_by: str | None
    """The session it was preempted for, or the cause."""


class LedgerPass(Struct, frozen=True, kw_only=True):
    """A recorded scheduling pass. Passes that repeat earlier decisions are not recorded."""

    number: int
    """Number of the pass; ascending, also over restarts."""
    at: datetime
    """When it ran."""
    event_number: int
    """The last event included in its snapshot."""
    epoch: int
    """Epoch of the leader."""
    code_version: str
    """Version of the scheduling code; a replay is only exact with the same version."""
    lost_before: int
    """Number of passes before this one that could not be recorded."""
    placed: tuple[str, ...]
    """Sessions that were granted devices, in order."""
    preempted: tuple[str, ...]
    """Sessions that were preempted."""
    failed: tuple[str, ...]
    """Sessions that failed because they can never run."""


class RecordCheck(Struct, frozen=True, kw_only=True):
    """
    A verification of the record: the hash chains of the event log and of the decision ledger, the archives, and the
    table of holdings. Counts are 0 until it has ended without a fault.
    """

    started_at: datetime
    """When it started."""
    ended_at: datetime | None
    """When it ended; null while it is running."""
    faults: tuple[str, ...]
    """What is broken; empty when the record is intact."""
    events: int
    """Verified events."""
    passes: int
    """Verified passes of the ledger."""
    unwritten: int
    """Passes that events name and that the ledger lacks."""
    holdings: int
    """Holdings compared with the log."""
    archives: int
    """Archive files compared with their seals."""
    archived_rows: int
    """Rows in these files."""
    removed_rows: int
    """Rows that were removed without an archive."""
