"""Baseline, revision 0017: creates all tables.

It replaces the seventeen revisions before it and has the number of the last one, so that a database they made needs no
change.
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0017"
down_revision = None

KINDS: Final[dict[str, TypeEngine[Any]]] = {
    "text": sa.Text().with_variant(sa.Text(collation="C"), "postgresql"),
    "int": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "bool": sa.Boolean(),
    "bytes": sa.LargeBinary(),
}
TABLES: Final = {
    "sessions": (
        "id text, version int, owner text, project text, pool text, name text?, run_id text?, tags text, "
        "spec text, priority int, state text, attempt int, retries int, excluded_agents text, not_before_us int?, "
        "queued_us int, scheduled_us int?, started_us int?, ended_us int?, exit_code int?, signal int?, "
        "failure text?, idempotency_key text?, request_hash text?, held_by text?, fallback_level int, "
        "preemptions int, preemption text?, array_id text?, array_index int?, tasks text?, gpus_milli int"
    ),
    "kernels": (
        "id text, version int, session_id text, attempt int, rank int, agent_id text, state text, epoch int, "
        "granted_us int, started_us int?, ended_us int?, exit_code int?, signal int?, timed_out bool, "
        "message text?, rendezvous_port int?"
    ),
    "leases": (
        "id text, version int, kind text, owner text, session_id text?, kernel_id text?, agent_id text, "
        "spec text, epoch int, granted_us int, until_us int?, released_us int?, evidence text?"
    ),
    "agents": (
        "id text, version int, node_id text, hostname text, state text, schedulable bool, devices text, "
        "slot_types text, attributes text, capabilities text, allocation_mode text, scaling_factor text, "
        "boot_id text, software_version text, registered_us int, state_changed_us int, pool text, labels text, "
        "draining bool, note text?"
    ),
    "slots": "id text, version int, type text, first_seen_us int, retired bool",
    "events": (
        "number int, at_us int, kind text, format int, entity text, entity_id text, entity_version int, "
        "actor text, request_id text?, epoch int, pass_number int?, prev_hash bytes, hash bytes, payload text"
    ),
    "counter": "id int, number int, hash bytes, epoch int, epoch_us int, at_us int, pass_number int",
    "policies": (
        "id text, version int, order text, backfill text, backfill_depth int, placement text, allocation text, "
        "allow_fragmentation bool, numa text, weights text, half_life_ms int, charges text, pools text, "
        "preemption text, retries text, user_priority_max int, changed_us int"
    ),
    "quotas": (
        "id text, version int, scope text, name text, max_slots text, own_slots text, max_queued int?, "
        "gpu_hours_per_month int?, weight int?, changed_us int"
    ),
    "accounts": (
        "id text, version int, project text, user text, used int, at_us int, charged int, month int, month_charged int"
    ),
    "passes": (
        "number int, now_us int, revision int, seed int, epoch int, code_version text, format int, lost int, "
        "body bytes, checkpoint_hash bytes?, prev_hash bytes, hash bytes"
    ),
    "checkpoints": "number int, body bytes",
    "chains": "id text, first_hash bytes, last_number int, last_hash bytes",
    "holdings": (
        "lease_id text, device_id text, slot text, kind text, agent_id text, session_id text?, owner text, "
        "amount int, from_us int, until_us int?, ended_us int?, evidence text?, pass_number int?, "
        "granted_event int, ended_event int?, preempted_us int?, preempted_by text?, preempted_pass int?"
    ),
    "marks": "id text, number int",
    "findings": (
        "id text, version int, kind text, agent_id text, subject text, evidence text, repair text?, found_us int, "
        "closed_us int?"
    ),
    "orchestration": "id text, version int, state text, changed_by text, changed_us int, note text?",
    "users": (
        "id text, version int, role int, unix_name text?, projects text, disabled bool, created_us int, "
        "changed_us int, subject text?, account text?"
    ),
    "keys": (
        "id text, version int, user text, name text, scope text, digest text, created_us int, expires_us int?, "
        "revoked_us int?"
    ),
    "secrets": "owner text, name text, key_id text, sealed bytes, created_us int, changed_us int",
    "secret_names": "id text, version int, set_us text",
    "seals": "id text, kind text, first int, last int, rows int, at_us int, file text?, sha256 text?, head bytes?",
    "notice_rules": (
        "id text, version int, threshold int, floor int, for_s int, severity int, muted_until_us int?, "
        "changed_us int, is_on bool"
    ),
    "alerts": (
        "id text, version int, severity int, opened_us int, told_us int, closed_us int?, rule text, subject text, "
        "words text, owners text"
    ),
    "deliveries": (
        "id text, version int, severity int, tries int, made_us int, next_us int, ended_us int?, receiver text, "
        "kind text, subject text, words text, user text?, notice_id text, state text, error text?, is_over bool, "
        "is_gathered bool"
    ),
    "subscribers": "id text, version int, changed_us int, email text?, notify text",
    "notice_marks": "id text, version int, number int",
    "actions": "id text, version int, facts text",
    "readings": "id int, epoch int, number int, told_us int, format int, body bytes",
}
"""Columns in order, each a name and a kind; a question mark makes the column nullable."""
KEYS: Final = {
    "events": ("number",),
    "passes": ("number",),
    "checkpoints": ("number",),
    "holdings": ("lease_id", "device_id", "slot"),
    "secrets": ("owner", "name"),
}
"""Primary keys that are not `id`."""
DEFAULTS: Final[dict[tuple[str, str], sa.TextClause]] = {
    ("sessions", "fallback_level"): sa.text("0"),
    ("sessions", "preemptions"): sa.text("0"),
    ("sessions", "gpus_milli"): sa.text("'0'"),
    ("agents", "pool"): sa.text("'default'"),
    ("agents", "labels"): sa.text("'{}'"),
    ("agents", "draining"): sa.text("false"),
}
"""Server defaults of columns that were added to existing tables."""
INDEXES: Final = (
    ("ix_sessions_array", "sessions", "array_id, array_index", "array_id IS NOT NULL"),
    ("ix_sessions_ended", "sessions", "ended_us, id", "ended_us IS NOT NULL"),
    ("ix_sessions_name", "sessions", "name, id", "name IS NOT NULL"),
    ("ix_sessions_owner", "sessions", "owner, id", ""),
    ("ix_sessions_run", "sessions", "run_id, id", "run_id IS NOT NULL"),
    ("ix_sessions_state", "sessions", "state, id", ""),
    ("uq_sessions_key", "sessions", "owner, idempotency_key", "idempotency_key IS NOT NULL"),
    ("ix_kernels_session", "kernels", "session_id, attempt", ""),
    ("ix_leases_held", "leases", "id", "released_us IS NULL"),
    ("ix_leases_kernel", "leases", "kernel_id", ""),
    ("ix_events_entity", "events", "entity_id, entity_version", ""),
    ("ix_passes_now", "passes", "now_us", ""),
    ("ix_holdings_device", "holdings", "device_id, from_us", ""),
    ("ix_holdings_ended", "holdings", "ended_us, lease_id, device_id, slot", ""),
    ("ix_findings_open", "findings", "id", "closed_us IS NULL"),
    ("uq_users_account", "users", "account", "account IS NOT NULL"),
    ("uq_users_subject", "users", "subject", "subject IS NOT NULL"),
    ("ix_alerts_open", "alerts", "id", "closed_us IS NULL"),
    ("ix_deliveries_notice", "deliveries", "notice_id", ""),
    ("ix_deliveries_waiting", "deliveries", "id", "ended_us IS NULL"),
)
"""Name, table, columns, and the condition of a partial index; a name with `uq_` is unique."""
FIRST_COUNTER: Final = {
    "id": 1,
    "number": 0,
    "hash": bytes(32),
    "epoch": 0,
    "epoch_us": 0,
    "at_us": 0,
    "pass_number": 0,
}


def upgrade() -> None:
    """Create every table, and the counter's one row."""
    made = {name: _table(name) for name in TABLES}
    for name, table, columns, condition in INDEXES:
        where = sa.text(condition) if condition else None
        op.create_index(
            name,
            table,
            columns.split(", "),
            unique=name.startswith("uq_"),
            sqlite_where=where,
            postgresql_where=where,
        )
    op.bulk_insert(made["counter"], [FIRST_COUNTER])
    if _is_postgres():
        op.execute("ALTER TABLE readings ALTER COLUMN body SET STORAGE EXTERNAL")  # compressed already


def _table(name: str) -> sa.Table:
    keys = KEYS.get(name, ("id",))
    columns = (_column(name, *column.split(" ")) for column in TABLES[name].split(", "))
    # One row, replaced every few seconds, needs no write-ahead log.
    prefixes = ["UNLOGGED"] if name == "readings" and _is_postgres() else []
    return op.create_table(name, *columns, sa.PrimaryKeyConstraint(*keys, name=f"pk_{name}"), prefixes=prefixes)


def _column(table: str, name: str, kind: str) -> sa.Column[Any]:
    return sa.Column(
        name,
        KINDS[kind.removesuffix("?")],
        nullable=kind.endswith("?"),
        server_default=DEFAULTS.get((table, name)),
        autoincrement=False,
    )


def _is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
