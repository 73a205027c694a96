"""The first tables.

Revision 0001.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean, LargeBinary
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make every table, and the one row of the counter."""
    _sessions()
    _kernels()
    _leases()
    _agents()
    _slots()
    _events()
    _counter()


def _column(name: str, kind: TypeEngine[Any], *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=nullable)


def _index(name: str, table: str, columns: list[str], *, where: str | None = None, unique: bool = False) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _sessions() -> None:
    op.create_table(
        "sessions",
        _column("id", TEXT),
        _column("version", INT),
        _column("owner", TEXT),
        _column("project", TEXT),
        _column("pool", TEXT),
        _column("name", TEXT, nullable=True),
        _column("run_id", TEXT, nullable=True),
        _column("tags", TEXT),
        _column("spec", TEXT),
        _column("priority", INT),
        _column("state", TEXT),
        _column("attempt", INT),
        _column("retries", INT),
        _column("excluded_agents", TEXT),
        _column("not_before_us", INT, nullable=True),
        _column("queued_us", INT),
        _column("scheduled_us", INT, nullable=True),
        _column("started_us", INT, nullable=True),
        _column("ended_us", INT, nullable=True),
        _column("exit_code", INT, nullable=True),
        _column("signal", INT, nullable=True),
        _column("failure", TEXT, nullable=True),
        _column("idempotency_key", TEXT, nullable=True),
        _column("request_hash", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    _index("ix_sessions_ended", "sessions", ["ended_us", "id"], where="ended_us IS NOT NULL")
    _index("ix_sessions_name", "sessions", ["name", "id"], where="name IS NOT NULL")
    _index("ix_sessions_owner", "sessions", ["owner", "id"])
    _index("ix_sessions_run", "sessions", ["run_id", "id"], where="run_id IS NOT NULL")
    _index("ix_sessions_state", "sessions", ["state", "id"])
    _index(
        "uq_sessions_key", "sessions", ["owner", "idempotency_key"], where="idempotency_key IS NOT NULL", unique=True
    )


def _kernels() -> None:
    op.create_table(
        "kernels",
        _column("id", TEXT),
        _column("version", INT),
        _column("session_id", TEXT),
        _column("attempt", INT),
        _column("rank", INT),
        _column("agent_id", TEXT),
        _column("state", TEXT),
        _column("epoch", INT),
        _column("granted_us", INT),
        _column("started_us", INT, nullable=True),
        _column("ended_us", INT, nullable=True),
        _column("exit_code", INT, nullable=True),
        _column("signal", INT, nullable=True),
        _column("timed_out", Boolean()),
        _column("message", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_kernels"),
    )
    _index("ix_kernels_session", "kernels", ["session_id", "attempt"])


def _leases() -> None:
    op.create_table(
        "leases",
        _column("id", TEXT),
        _column("version", INT),
        _column("kind", TEXT),
        _column("owner", TEXT),
        _column("session_id", TEXT, nullable=True),
        _column("kernel_id", TEXT, nullable=True),
        _column("agent_id", TEXT),
        _column("spec", TEXT),
        _column("epoch", INT),
        _column("granted_us", INT),
        _column("until_us", INT, nullable=True),
        _column("released_us", INT, nullable=True),
        _column("evidence", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_leases"),
    )
    _index("ix_leases_held", "leases", ["id"], where="released_us IS NULL")
    _index("ix_leases_kernel", "leases", ["kernel_id"])


def _agents() -> None:
    op.create_table(
        "agents",
        _column("id", TEXT),
        _column("version", INT),
        _column("node_id", TEXT),
        _column("hostname", TEXT),
        _column("state", TEXT),
        _column("schedulable", Boolean()),
        _column("devices", TEXT),
        _column("slot_types", TEXT),
        _column("attributes", TEXT),
        _column("capabilities", TEXT),
        _column("allocation_mode", TEXT),
        _column("scaling_factor", TEXT),
        _column("boot_id", TEXT),
        _column("software_version", TEXT),
        _column("registered_us", INT),
        _column("state_changed_us", INT),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
    )


def _slots() -> None:
    op.create_table(
        "slots",
        _column("id", TEXT),
        _column("version", INT),
        _column("type", TEXT),
        _column("first_seen_us", INT),
        _column("retired", Boolean()),
        sa.PrimaryKeyConstraint("id", name="pk_slots"),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("number", INT, autoincrement=False, nullable=False),
        _column("at_us", INT),
        _column("kind", TEXT),
        _column("format", INT),
        _column("entity", TEXT),
        _column("entity_id", TEXT),
        _column("entity_version", INT),
        _column("actor", TEXT),
        _column("request_id", TEXT, nullable=True),
        _column("epoch", INT),
        _column("pass_number", INT, nullable=True),
        _column("prev_hash", LargeBinary()),
        _column("hash", LargeBinary()),
        _column("payload", TEXT),
        sa.PrimaryKeyConstraint("number", name="pk_events"),
    )


def _counter() -> None:
    counter = op.create_table(
        "counter",
        sa.Column("id", INT, autoincrement=False, nullable=False),
        _column("number", INT),
        _column("hash", LargeBinary()),
        _column("epoch", INT),
        _column("epoch_us", INT),
        _column("at_us", INT),
        _column("pass_number", INT),
        sa.PrimaryKeyConstraint("id", name="pk_counter"),
    )
    first = {"id": 1, "number": 0, "hash": bytes(32), "epoch": 0, "epoch_us": 0, "at_us": 0, "pass_number": 0}
    op.bulk_insert(counter, [first])
