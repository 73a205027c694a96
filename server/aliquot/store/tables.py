"""The tables. A column is named like the record's field; nested values are JSON text, times microseconds UTC.

There are no foreign keys: the log is the authority, and a row is never deleted by another row's end.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Index, Integer, LargeBinary, MetaData, Table, Text, text
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared byte by byte in both databases, so that ids sort alike."""
INT: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits in both databases; SQLite takes only the very word INTEGER as its row number."""

METADATA: Final = MetaData(naming_convention={"pk": "pk_%(table_name)s"})


def _key() -> Any:
    return Field(sa_type=TEXT, primary_key=True)


def _text() -> Any:
    return Field(sa_type=TEXT)


def _number() -> Any:
    return Field(sa_type=INT)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


class Row(SQLModel, registry=registry(metadata=METADATA)):
    """What all tables share: their own metadata, apart from other users of SQLModel in the process."""


class SessionRow(Row, table=True):
    """`Session`."""

    __tablename__ = "sessions"
    __table_args__ = (
        Index("uq_sessions_key", "owner", "idempotency_key", unique=True, **_where("idempotency_key IS NOT NULL")),
        Index("ix_sessions_state", "state", "id"),
        Index("ix_sessions_owner", "owner", "id"),
        Index("ix_sessions_run", "run_id", "id", **_where("run_id IS NOT NULL")),
        Index("ix_sessions_name", "name", "id", **_where("name IS NOT NULL")),
        Index("ix_sessions_array", "array_id", "array_index", **_where("array_id IS NOT NULL")),
        Index("ix_sessions_ended", "ended_us", "id", **_where("ended_us IS NOT NULL")),
    )

    id: str = _key()
    version: int = _number()
    owner: str = _text()
    project: str = _text()
    pool: str = _text()
    name: str | None = _text()
    run_id: str | None = _text()
    tags: str = _text()
    spec: str = _text()
    priority: int = _number()
    state: str = _text()
    attempt: int = _number()
    retries: int = _number()
    excluded_agents: str = _text()
    not_before_us: int | None = _number()
    queued_us: int = _number()
    scheduled_us: int | None = _number()
    started_us: int | None = _number()
    ended_us: int | None = _number()
    exit_code: int | None = _number()
    signal: int | None = _number()
    failure: str | None = _text()
    idempotency_key: str | None = _text()
    request_hash: str | None = _text()
    held_by: str | None = _text()
    fallback_level: int = _number()
    preemptions: int = _number()
    preemption: str | None = _text()
    array_id: str | None = _text()
    array_index: int | None = _number()
    tasks: str | None = _text()
    gpus_milli: int = _number()


class KernelRow(Row, table=True):
    """`Kernel`."""

    __tablename__ = "kernels"
    __table_args__ = (Index("ix_kernels_session", "session_id", "attempt"),)

    id: str = _key()
    version: int = _number()
    session_id: str = _text()
    attempt: int = _number()
    rank: int = _number()
    agent_id: str = _text()
    state: str = _text()
    epoch: int = _number()
    granted_us: int = _number()
    started_us: int | None = _number()
    ended_us: int | None = _number()
    exit_code: int | None = _number()
    signal: int | None = _number()
    timed_out: bool
    message: str | None = _text()
    rendezvous_port: int | None = _number()


class LeaseRow(Row, table=True):
    """`Lease`."""

    __tablename__ = "leases"
    __table_args__ = (
        Index("ix_leases_kernel", "kernel_id"),
        Index("ix_leases_held", "id", **_where("released_us IS NULL")),
    )

    id: str = _key()
    version: int = _number()
    kind: str = _text()
    owner: str = _text()
    session_id: str | None = _text()
    kernel_id: str | None = _text()
    agent_id: str = _text()
    spec: str = _text()
    epoch: int = _number()
    granted_us: int = _number()
    until_us: int | None = _number()
    released_us: int | None = _number()
    evidence: str | None = _text()


class AgentRow(Row, table=True):
    """`Agent`."""

    __tablename__ = "agents"

    id: str = _key()
    version: int = _number()
    node_id: str = _text()
    hostname: str = _text()
    state: str = _text()
    schedulable: bool
    devices: str = _text()
    slot_types: str = _text()
    attributes: str = _text()
    capabilities: str = _text()
    allocation_mode: str = _text()
    scaling_factor: str = _text()
    boot_id: str = _text()
    software_version: str = _text()
    registered_us: int = _number()
    state_changed_us: int = _number()
    pool: str = _text()
    labels: str = _text()
    draining: bool
    note: str | None = _text()


class SlotRow(Row, table=True):
    """`KnownSlot`."""

    __tablename__ = "slots"

    id: str = _key()
    version: int = _number()
    type: str = _text()
    first_seen_us: int = _number()
    retired: bool


class PolicyRow(Row, table=True):
    """`PolicyDocument`."""

    __tablename__ = "policies"

    id: str = _key()
    version: int = _number()
    order: str = _text()
    backfill: str = _text()
    backfill_depth: int = _number()
    placement: str = _text()
    allocation: str = _text()
    allow_fragmentation: bool
    numa: str = _text()
    weights: str = _text()
    half_life_ms: int = _number()
    charges: str = _text()
    pools: str = _text()
    preemption: str = _text()
    retries: str = _text()
    user_priority_max: int = _number()
    changed_us: int = _number()


class QuotaRow(Row, table=True):
    """`Quota`."""

    __tablename__ = "quotas"

    id: str = _key()
    version: int = _number()
    scope: str = _text()
    name: str = _text()
    max_slots: str = _text()
    own_slots: str = _text()
    max_queued: int | None = _number()
    gpu_hours_per_month: int | None = _number()
    weight: int | None = _number()
    changed_us: int = _number()


class AccountRow(Row, table=True):
    """`Account`."""

    __tablename__ = "accounts"

    id: str = _key()
    version: int = _number()
    project: str = _text()
    user: str = _text()
    used: int = _number()
    at_us: int = _number()
    charged: int = _number()
    month: int = _number()
    month_charged: int = _number()


class FindingRow(Row, table=True):
    """`Finding`."""

    __tablename__ = "findings"
    __table_args__ = (Index("ix_findings_open", "id", **_where("closed_us IS NULL")),)

    id: str = _key()
    version: int = _number()
    kind: str = _text()
    agent_id: str = _text()
    subject: str = _text()
    evidence: str = _text()
    repair: str | None = _text()
    found_us: int = _number()
    closed_us: int | None = _number()


class OrchestrationRow(Row, table=True):
    """`Orchestration`."""

    __tablename__ = "orchestration"

    id: str = _key()
    version: int = _number()
    state: str = _text()
    changed_by: str = _text()
    changed_us: int = _number()
    note: str | None = _text()


class UserRow(Row, table=True):
    """`User`."""

    __tablename__ = "users"
    __table_args__ = (
        Index("uq_users_subject", "subject", unique=True, **_where("subject IS NOT NULL")),
        Index("uq_users_account", "account", unique=True, **_where("account IS NOT NULL")),
    )

    id: str = _key()
    version: int = _number()
    role: int = _number()
    unix_name: str | None = _text()
    projects: str = _text()
    disabled: bool
    subject: str | None = _text()
    account: str | None = _text()
    created_us: int = _number()
    changed_us: int = _number()


class KeyRow(Row, table=True):
    """`ApiKey`."""

    __tablename__ = "keys"

    id: str = _key()
    version: int = _number()
    user: str = _text()
    name: str = _text()
    scope: str = _text()
    digest: str = _text()
    created_us: int = _number()
    expires_us: int | None = _number()
    revoked_us: int | None = _number()


class SecretNamesRow(Row, table=True):
    """`SecretNames`."""

    __tablename__ = "secret_names"

    id: str = _key()
    version: int = _number()
    set_us: str = _text()


class EventRow(Row, table=True):
    """One link of the log, see `aliquot.store.chain`."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_entity", "entity_id", "entity_version"),)

    number: int = Field(sa_type=INT, primary_key=True, sa_column_kwargs={"autoincrement": False})
    at_us: int = _number()
    kind: str = _text()
    format: int = _number()
    entity: str = _text()
    entity_id: str = _text()
    entity_version: int = _number()
    actor: str = _text()
    request_id: str | None = _text()
    epoch: int = _number()
    pass_number: int | None = _number()
    prev_hash: bytes = Field(sa_type=LargeBinary)
    hash: bytes = Field(sa_type=LargeBinary)
    payload: str = _text()


class CounterRow(Row, table=True):
    """One row, id 1: the end of the log and who leads. Whoever writes events holds its lock until the commit."""

    __tablename__ = "counter"

    id: int = Field(sa_type=INT, primary_key=True, sa_column_kwargs={"autoincrement": False})
    number: int = _number()
    hash: bytes = Field(sa_type=LargeBinary)
    epoch: int = _number()
    epoch_us: int = _number()
    """When the epoch was raised."""
    at_us: int = _number()
    """The latest time of any event."""
    pass_number: int = _number()
    """The highest pass of any event."""


SESSIONS: Final[Table] = METADATA.tables["sessions"]
KERNELS: Final[Table] = METADATA.tables["kernels"]
LEASES: Final[Table] = METADATA.tables["leases"]
AGENTS: Final[Table] = METADATA.tables["agents"]
SLOTS: Final[Table] = METADATA.tables["slots"]
POLICIES: Final[Table] = METADATA.tables["policies"]
QUOTAS: Final[Table] = METADATA.tables["quotas"]
ACCOUNTS: Final[Table] = METADATA.tables["accounts"]
FINDINGS: Final[Table] = METADATA.tables["findings"]
USERS: Final[Table] = METADATA.tables["users"]
KEYS: Final[Table] = METADATA.tables["keys"]
ORCHESTRATION: Final[Table] = METADATA.tables["orchestration"]
SECRET_NAMES: Final[Table] = METADATA.tables["secret_names"]
EVENTS: Final[Table] = METADATA.tables["events"]
COUNTER: Final[Table] = METADATA.tables["counter"]
