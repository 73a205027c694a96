"""Backtests, revision 0027: the results of backtests and tunings."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "backtests",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("saved_us", INT, nullable=False),
        sa.Column("format", INT, nullable=False),
        sa.Column("summary", TEXT, nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_backtests"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE backtests ALTER COLUMN result SET STORAGE EXTERNAL")  # compressed already
