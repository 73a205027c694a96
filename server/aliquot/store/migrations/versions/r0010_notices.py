"""Alerts, what people are told of, and whether it reached them.

Revision 0010.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nobody has been told anything, so far."""
    _create("notice_rules", numbers="version threshold floor for_s severity muted_until_us? changed_us", flags="is_on")
    _create(
        "alerts",
        numbers="version severity opened_us told_us closed_us?",
        texts="rule subject words owners",
    )
    _create(
        "deliveries",
        numbers="version severity tries made_us next_us ended_us?",
        texts="receiver kind subject words user? notice_id state error?",
        flags="is_over is_gathered",
    )
    _create("subscribers", numbers="version changed_us", texts="email? notify")
    _create("notice_marks", numbers="version number")
    _index("ix_alerts_open", "alerts", where="closed_us IS NULL")
    _index("ix_deliveries_waiting", "deliveries", where="ended_us IS NULL")
    op.create_index("ix_deliveries_notice", "deliveries", ["notice_id"])


def _create(name: str, *, numbers: str, texts: str = "", flags: str = "") -> None:
    """Columns by name; those with a question mark may be empty."""
    kinds: tuple[tuple[str, sa.types.TypeEngine[Any]], ...] = ((numbers, INT), (texts, TEXT), (flags, sa.Boolean()))
    columns = [
        sa.Column(column.removesuffix("?"), kind, nullable=column.endswith("?"))
        for names, kind in kinds
        for column in names.split()
    ]
    op.create_table(
        name, sa.Column("id", TEXT, nullable=False), *columns, sa.PrimaryKeyConstraint("id", name=f"pk_{name}")
    )


def _index(name: str, table: str, *, where: str) -> None:
    op.create_index(name, table, ["id"], sqlite_where=sa.text(where), postgresql_where=sa.text(where))
