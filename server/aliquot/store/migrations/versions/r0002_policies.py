"""Policies, quotas and accounts; job arrays, holds, fallbacks and preemption of sessions; labels of agents.

Revision 0002.
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean
from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ADDED: Final[tuple[tuple[str, str, TypeEngine[Any], str | None], ...]] = (
    ("sessions", "held_by", TEXT, None),
    ("sessions", "fallback_level", INT, "0"),
    ("sessions", "preemptions", INT, "0"),
    ("sessions", "preemption", TEXT, None),
    ("sessions", "array_id", TEXT, None),
    ("sessions", "array_index", INT, None),
    ("sessions", "tasks", TEXT, None),
    ("agents", "pool", TEXT, "'default'"),
    ("agents", "labels", TEXT, "'{}'"),
    ("agents", "draining", Boolean(), "false"),
    ("agents", "note", TEXT, None),
)
"""(table, column, type, the value in rows that are there; None = the column may be empty)."""


def upgrade() -> None:
    """Add columns and tables; what the old rows mean stays the same."""
    for table, name, kind, value in ADDED:
        default = None if value is None else sa.text(value)
        op.add_column(table, sa.Column(name, kind, nullable=value is None, server_default=default))
    condition = sa.text("array_id IS NOT NULL")
    op.create_index(
        "ix_sessions_array",
        "sessions",
        ["array_id", "array_index"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
    _policies()
    _quotas()
    _accounts()


def _column(name: str, kind: TypeEngine[Any], *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=nullable)


def _policies() -> None:
    op.create_table(
        "policies",
        _column("id", TEXT),
        _column("version", INT),
        _column("order", TEXT),
        _column("backfill", TEXT),
        _column("backfill_depth", INT),
        _column("placement", TEXT),
        _column("allocation", TEXT),
        _column("allow_fragmentation", Boolean()),
        _column("numa", TEXT),
        _column("weights", TEXT),
        _column("half_life_ms", INT),
        _column("charges", TEXT),
        _column("pools", TEXT),
        _column("preemption", TEXT),
        _column("retries", TEXT),
        _column("user_priority_max", INT),
        _column("changed_us", INT),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
    )


def _quotas() -> None:
    op.create_table(
        "quotas",
        _column("id", TEXT),
        _column("version", INT),
        _column("scope", TEXT),
        _column("name", TEXT),
        _column("max_slots", TEXT),
        _column("own_slots", TEXT),
        _column("max_queued", INT, nullable=True),
        _column("gpu_hours_per_month", INT, nullable=True),
        _column("weight", INT, nullable=True),
        _column("changed_us", INT),
        sa.PrimaryKeyConstraint("id", name="pk_quotas"),
    )


def _accounts() -> None:
    op.create_table(
        "accounts",
        _column("id", TEXT),
        _column("version", INT),
        _column("project", TEXT),
        _column("user", TEXT),
        _column("used", INT),
        _column("at_us", INT),
        _column("charged", INT),
        _column("month", INT),
        _column("month_charged", INT),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
    )
