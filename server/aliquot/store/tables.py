"""Main tables. A column is named like the record's field; nested values are JSON text, times microseconds UTC.

There are no foreign keys: the event log is the authority, and deleting one row never deletes another.
"""

from typing import Final

from sqlalchemy import Index, Table

from aliquot.store.columns import (
    METADATA,
    TableRow,
    bytes_column,
    number_column,
    number_key,
    text_column,
    text_key,
    where,
)


class SessionRow(TableRow, table=True):
    """`Session`."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index("uq_sessions_key", "owner", "idempotency_key", unique=True, **where("idempotency_key IS NOT NULL")),
        Index("ix_sessions_state", "state", "id"),
        Index("ix_sessions_owner", "owner", "id"),
        Index("ix_sessions_run", "run_id", "id", **where("run_id IS NOT NULL")),
        Index("ix_sessions_name", "name", "id", **where("name IS NOT NULL")),
        Index("ix_sessions_array", "array_id", "array_index", **where("array_id IS NOT NULL")),
        Index("ix_sessions_ended", "ended_us", "id", **where("ended_us IS NOT NULL")),
    )

    id: str = text_key()
    version: int = number_column()
    owner: str = text_column()
    project: str = text_column()
    pool: str = text_column()
    name: str | None = text_column()
    run_id: str | None = text_column()
    tags: str = text_column()
    spec: str = text_column()
    priority: int = number_column()
    state: str = text_column()
    attempt: int = number_column()
    retries: int = number_column()
    excluded_agents: str = text_column()
    not_before_us: int | None = number_column()
    queued_us: int = number_column()
    scheduled_us: int | None = number_column()
    started_us: int | None = number_column()
    ended_us: int | None = number_column()
    exit_code: int | None = number_column()
    signal: int | None = number_column()
    failure: str | None = text_column()
    idempotency_key: str | None = text_column()
    request_hash: str | None = text_column()
    held_by: str | None = text_column()
    fallback_level: int = number_column()
    preemptions: int = number_column()
    preemption: str | None = text_column()
    array_id: str | None = text_column()
    array_index: int | None = number_column()
    tasks: str | None = text_column()
    work: str | None = text_column()
    extension: str | None = text_column()
    key_id: str | None = text_column()
    preflight: str | None = text_column()
    pull: str | None = text_column()
    gpus_milli: int = number_column()


class KernelRow(TableRow, table=True):
    """`Kernel`."""

    __tablename__ = "kernels"
    __table_args__ = (Index("ix_kernels_session", "session_id", "attempt"),)

    id: str = text_key()
    version: int = number_column()
    session_id: str = text_column()
    attempt: int = number_column()
    rank: int = number_column()
    agent_id: str = text_column()
    state: str = text_column()
    epoch: int = number_column()
    granted_us: int = number_column()
    started_us: int | None = number_column()
    ended_us: int | None = number_column()
    exit_code: int | None = number_column()
    signal: int | None = number_column()
    timed_out: bool
    message: str | None = text_column()
    rendezvous_port: int | None = number_column()
    host_use: str | None = text_column()
    takes_limit: bool | None
    checked_us: int | None = number_column()


class LeaseRow(TableRow, table=True):
    """`Lease`."""

    __tablename__ = "leases"
    __table_args__ = (
        Index("ix_leases_kernel", "kernel_id"),
        Index("ix_leases_held", "id", **where("released_us IS NULL")),
    )

    id: str = text_key()
    version: int = number_column()
    kind: str = text_column()
    owner: str = text_column()
    session_id: str | None = text_column()
    kernel_id: str | None = text_column()
    agent_id: str = text_column()
    spec: str = text_column()
    epoch: int = number_column()
    granted_us: int = number_column()
    until_us: int | None = number_column()
    released_us: int | None = number_column()
    evidence: str | None = text_column()
    idle: int = number_column()
    policy_version: int = number_column()


class AgentRow(TableRow, table=True):
    """`Agent`."""

    __tablename__ = "agents"

    id: str = text_key()
    version: int = number_column()
    node_id: str = text_column()
    hostname: str = text_column()
    state: str = text_column()
    schedulable: bool
    devices: str = text_column()
    slot_types: str = text_column()
    attributes: str = text_column()
    capabilities: str = text_column()
    allocation_mode: str = text_column()
    scaling_factor: str = text_column()
    boot_id: str = text_column()
    software_version: str = text_column()
    registered_us: int = number_column()
    state_changed_us: int = number_column()
    pool: str = text_column()
    labels: str = text_column()
    draining: bool
    note: str | None = text_column()
    evicted_by: str | None = text_column()


class SlotRow(TableRow, table=True):
    """`KnownSlot`."""

    __tablename__ = "slots"

    id: str = text_key()
    version: int = number_column()
    type: str = text_column()
    first_seen_us: int = number_column()
    retired: bool


class PolicyRow(TableRow, table=True):
    """`PolicyDocument`."""

    __tablename__ = "policies"

    id: str = text_key()
    version: int = number_column()
    order: str = text_column()
    backfill: str = text_column()
    backfill_depth: int = number_column()
    placement: str = text_column()
    allocation: str = text_column()
    allow_fragmentation: bool
    numa: str = text_column()
    weights: str = text_column()
    half_life_ms: int = number_column()
    charges: str = text_column()
    pools: str = text_column()
    preemption: str = text_column()
    retries: str = text_column()
    user_priority_max: int = number_column()
    changed_us: int = number_column()
    prices: str = text_column()


class QuotaRow(TableRow, table=True):
    """`Quota`."""

    __tablename__ = "quotas"

    id: str = text_key()
    version: int = number_column()
    scope: str = text_column()
    name: str = text_column()
    max_slots: str = text_column()
    own_slots: str = text_column()
    max_queued: int | None = number_column()
    gpu_hours_per_month: int | None = number_column()
    weight: int | None = number_column()
    changed_us: int = number_column()
    budget: int | None = number_column()


class AccountRow(TableRow, table=True):
    """`Account`."""

    __tablename__ = "accounts"

    id: str = text_key()
    version: int = number_column()
    project: str = text_column()
    user: str = text_column()
    used: int = number_column()
    at_us: int = number_column()
    charged: int = number_column()
    month: int = number_column()
    month_charged: int = number_column()


class StatementRow(TableRow, table=True):
    """`Statement`."""

    __tablename__ = "statements"

    id: str = text_key()
    version: int = number_column()
    account: str = text_column()
    month: int = number_column()
    used: int = number_column()
    idle: int = number_column()
    lost_failure: int = number_column()
    lost_preemption: int = number_column()
    cost: int = number_column()
    credited: int = number_column()
    sessions: int = number_column()
    waited_ms: int = number_column()
    preemptions: int = number_column()


class FindingRow(TableRow, table=True):
    """`Finding`."""

    __tablename__ = "findings"
    __table_args__ = (Index("ix_findings_open", "id", **where("closed_us IS NULL")),)

    id: str = text_key()
    version: int = number_column()
    kind: str = text_column()
    agent_id: str = text_column()
    subject: str = text_column()
    evidence: str = text_column()
    repair: str | None = text_column()
    found_us: int = number_column()
    closed_us: int | None = number_column()


class BookingRow(TableRow, table=True):
    """`Booking`."""

    __tablename__ = "bookings"
    __table_args__ = (Index("ix_bookings_open", "id", **where("ended_us IS NULL")),)

    id: str = text_key()
    version: int = number_column()
    kind: str = text_column()
    name: str = text_column()
    owner: str = text_column()
    project: str = text_column()
    pool: str = text_column()
    gpus: int = number_column()
    models: str = text_column()
    wanted: str = text_column()
    nodes: str = text_column()
    starts_us: int = number_column()
    ends_us: int = number_column()
    state: str = text_column()
    devices: str = text_column()
    extends_to_us: int | None = number_column()
    no_show_after_ms: int | None = number_column()
    used_us: int | None = number_column()
    series: str | None = text_column()
    created_us: int = number_column()
    refusal: str | None = text_column()
    covered: int = number_column()
    held_back: int = number_column()
    ended_us: int | None = number_column()


class OrchestrationRow(TableRow, table=True):
    """`Orchestration`."""

    __tablename__ = "orchestration"

    id: str = text_key()
    version: int = number_column()
    state: str = text_column()
    changed_by: str = text_column()
    changed_us: int = number_column()
    note: str | None = text_column()


class UserRow(TableRow, table=True):
    """`User`."""

    __tablename__ = "users"
    __table_args__ = (
        Index("uq_users_subject", "subject", unique=True, **where("subject IS NOT NULL")),
        Index("uq_users_account", "account", unique=True, **where("account IS NOT NULL")),
    )

    id: str = text_key()
    version: int = number_column()
    role: int = number_column()
    unix_name: str | None = text_column()
    projects: str = text_column()
    disabled: bool
    subject: str | None = text_column()
    account: str | None = text_column()
    created_us: int = number_column()
    changed_us: int = number_column()


class KeyRow(TableRow, table=True):
    """`ApiKey`."""

    __tablename__ = "keys"

    id: str = text_key()
    version: int = number_column()
    user: str = text_column()
    name: str = text_column()
    scope: str = text_column()
    digest: str = text_column()
    created_us: int = number_column()
    expires_us: int | None = number_column()
    revoked_us: int | None = number_column()
    gpu_use_max: int | None = number_column()
    sessions_max: int | None = number_column()
    dry_run_first: bool | None
    gpu_use: int = number_column()
    submitted: int = number_column()


class SecretNamesRow(TableRow, table=True):
    """`SecretNames`."""

    __tablename__ = "secret_names"

    id: str = text_key()
    version: int = number_column()
    set_us: str = text_column()


class ActionRow(TableRow, table=True):
    """`Action`."""

    __tablename__ = "actions"

    id: str = text_key()
    version: int = number_column()
    facts: str = text_column()


class EventRow(TableRow, table=True):
    """One event of the log, see `aliquot.store.hash_chain`."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_entity", "entity_id", "entity_version"),)

    number: int = number_key()
    at_us: int = number_column()
    kind: str = text_column()
    format: int = number_column()
    entity: str = text_column()
    entity_id: str = text_column()
    entity_version: int = number_column()
    actor: str = text_column()
    request_id: str | None = text_column()
    epoch: int = number_column()
    pass_number: int | None = number_column()
    prev_hash: bytes = bytes_column()
    hash: bytes = bytes_column()
    payload: str = text_column()


class CounterRow(TableRow, table=True):
    """One row, id 1: the end of the log and the present epoch. A writer of events locks it until its commit."""

    __tablename__ = "counter"

    id: int = number_key()
    number: int = number_column()
    hash: bytes = bytes_column()
    epoch: int = number_column()
    epoch_us: int = number_column()
    """When the epoch began, microseconds UTC."""
    at_us: int = number_column()
    """The latest time of any event."""
    pass_number: int = number_column()
    """The highest pass of any event."""


SESSIONS: Final[Table] = METADATA.tables["sessions"]
KERNELS: Final[Table] = METADATA.tables["kernels"]
LEASES: Final[Table] = METADATA.tables["leases"]
AGENTS: Final[Table] = METADATA.tables["agents"]
SLOTS: Final[Table] = METADATA.tables["slots"]
POLICIES: Final[Table] = METADATA.tables["policies"]
QUOTAS: Final[Table] = METADATA.tables["quotas"]
ACCOUNTS: Final[Table] = METADATA.tables["accounts"]
BOOKINGS: Final[Table] = METADATA.tables["bookings"]
STATEMENTS: Final[Table] = METADATA.tables["statements"]
FINDINGS: Final[Table] = METADATA.tables["findings"]
USERS: Final[Table] = METADATA.tables["users"]
KEYS: Final[Table] = METADATA.tables["keys"]
ORCHESTRATION: Final[Table] = METADATA.tables["orchestration"]
SECRET_NAMES: Final[Table] = METADATA.tables["secret_names"]
ACTIONS: Final[Table] = METADATA.tables["actions"]
EVENTS: Final[Table] = METADATA.tables["events"]
COUNTER: Final[Table] = METADATA.tables["counter"]
