"""Forecasts, revision 0018: what sessions were told about their start, with the truth, and how it reaches followers."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the three tables."""
    op.create_table(
        "forecasts",
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("age_s", INT, nullable=False),
        sa.Column("made_us", INT, nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("settled_us", INT, nullable=True),
        sa.Column("ended_us", INT, nullable=True),
        sa.Column("body", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "age_s", name="pk_forecasts"),
    )
    op.create_index("ix_forecasts_made", "forecasts", ["made_us", "session_id", "age_s"])
    op.create_table(
        "forecast_days",
        sa.Column("day", INT, nullable=False, autoincrement=False),
        sa.Column("at_once", INT, nullable=False),
        sa.PrimaryKeyConstraint("day", name="pk_forecast_days"),
    )
    is_postgres = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "forecast_boards",
        sa.Column("id", INT, nullable=False, autoincrement=False),
        sa.Column("epoch", INT, nullable=False),
        sa.Column("number", INT, nullable=False),
        sa.Column("format", INT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_forecast_boards"),
        # One row, replaced every minute, needs no write-ahead log.
        prefixes=["UNLOGGED"] if is_postgres else [],
    )
    if is_postgres:
        op.execute("ALTER TABLE forecast_boards ALTER COLUMN body SET STORAGE EXTERNAL")  # compressed already
