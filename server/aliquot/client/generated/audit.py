"""Audit.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct


class ChangedField(Struct, frozen=True, kw_only=True):
    """One field of a record. Values are JSON texts."""

    name: str
    """The field."""
    before: str | None
    """What it was; null when the record was made by this change, or what was before is no longer kept."""
    after: str
    """What it is."""


class AuditChange(Struct, frozen=True, kw_only=True):
    """A change: one event of the log."""

    number: int
    """Of the event; rises without gaps."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened: `session.queued`, `lease.granted`, ..."""
    entity_id: str
    """Whom it happened to."""
    actor: str
    """Who did it: a user, or a part of the server, `system:PART`."""
    request_id: str | None
    """The request that asked for it."""
    pass_number: int | None
    """The pass of the allocator that decided it."""
    fields: tuple[ChangedField, ...]
    """
    What is another way now; all of it when the record was made by this change. Values of environments are not shown,
    and what sessions run is shown to admins alone.
    """


class AuditFilterInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which changes; what is left out does not filter."""

    entity_id: str | None = None
    """A session, lease, agent, quota, ... by its id."""
    actor: str | None = None
    """A user, or `system:PART`."""
    kind: str | None = None
    """`session`, `lease`, ..., or `session.queued`, ..."""
    since: datetime | None = None
    """Not before this."""
    until: datetime | None = None
    """Not after this."""
    people_only: bool = False
    """Leave out what the server did by itself."""


class DeviceHolding(Struct, frozen=True, kw_only=True):
    """So much of one slot of one device, held by one lease from its grant to its release."""

    device_id: str
    """The device."""
    slot: str
    """The slot."""
    amount: str
    """How much of it."""
    kind: str
    """Of the lease."""
    lease_id: str
    """The lease."""
    agent_id: str
    """The agent that the device was granted on."""
    session_id: str | None
    """The session; null when it was a person's own."""
    user: str
    """Who held it."""
    since: datetime
    """When it was granted."""
    until: datetime | None
    """When it was given back; null while it is held."""
    evidence: str | None
    """What proved that it was free; null while it is held."""
    pass_number: int | None
    """The pass of the allocator that granted it."""
    preempted_at: datetime | None
    """When it was asked to make room."""
    preempted_by: str | None
    """The session that started in its place, or the cause."""


class LedgerPass(Struct, frozen=True, kw_only=True):
    """A pass of the allocator that decided something new."""

    number: int
    """Rises from pass to pass, over restarts too."""
    at: datetime
    """When."""
    event_number: int
    """The last event that it knew of."""
    epoch: int
    """The term of the leader that decided."""
    code_version: str
    """The sources that decided; they alone repeat it for certain."""
    lost_before: int
    """Passes before this one that could not be written down."""
    placed: tuple[str, ...]
    """Sessions that were given devices, in their order."""
    preempted: tuple[str, ...]
    """Sessions that were asked to make room."""
    failed: tuple[str, ...]
    """Sessions that can never run any more."""
