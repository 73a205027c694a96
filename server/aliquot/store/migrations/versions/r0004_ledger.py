"""The decision ledger, and the audit: who held which device when, and the log by what it is about.

Revision 0004.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import LargeBinary
from sqlalchemy.types import TypeEngine

revision = "0004"
down_revision = "0003"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables; the ledger begins with the first pass of the server that starts now."""
    _passes()
    op.create_table(
        "checkpoints",
        _column("number", INT, autoincrement=False),
        _column("body", LargeBinary()),
        sa.PrimaryKeyConstraint("number", name="pk_checkpoints"),
    )
    op.create_table(
        "chains",
        _column("id", TEXT),
        _column("first_hash", LargeBinary()),
        _column("last_number", INT),
        _column("last_hash", LargeBinary()),
        sa.PrimaryKeyConstraint("id", name="pk_chains"),
    )
    _holdings()
    op.create_table(
        "marks",
        _column("id", TEXT),
        _column("number", INT),
        sa.PrimaryKeyConstraint("id", name="pk_marks"),
    )
    op.create_index("ix_events_entity", "events", ["entity_id", "entity_version"])


def _passes() -> None:
    op.create_table(
        "passes",
        _column("number", INT, autoincrement=False),
        _column("now_us", INT),
        _column("revision", INT),
        _column("seed", INT),
        _column("epoch", INT),
        _column("code_version", TEXT),
        _column("format", INT),
        _column("lost", INT),
        _column("body", LargeBinary()),
        sa.Column("checkpoint_hash", LargeBinary(), nullable=True),
        _column("prev_hash", LargeBinary()),
        _column("hash", LargeBinary()),
        sa.PrimaryKeyConstraint("number", name="pk_passes"),
    )
    op.create_index("ix_passes_now", "passes", ["now_us"])


def _holdings() -> None:
    op.create_table(
        "holdings",
        _column("lease_id", TEXT),
        _column("device_id", TEXT),
        _column("slot", TEXT),
        _column("kind", TEXT),
        _column("agent_id", TEXT),
        _maybe("session_id", TEXT),
        _column("owner", TEXT),
        _column("amount", INT),
        _column("from_us", INT),
        _maybe("until_us", INT),
        _maybe("ended_us", INT),
        _maybe("evidence", TEXT),
        _maybe("pass_number", INT),
        _column("granted_event", INT),
        _maybe("ended_event", INT),
        sa.PrimaryKeyConstraint("lease_id", "device_id", "slot", name="pk_holdings"),
    )
    op.create_index("ix_holdings_device", "holdings", ["device_id", "from_us"])


def _maybe(name: str, kind: TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _column(name: str, kind: TypeEngine[Any], **more: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **more)
