"""Preflight, revision 0024: checks before a session's command starts."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns; no session had a check before."""
    op.add_column("sessions", sa.Column("preflight", TEXT, nullable=True))
    op.add_column("kernels", sa.Column("checked_us", INT, nullable=True))
