"""Sharing, revision 0022: later time limits of running sessions, and budgets of API keys."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns; what was stored before has none of it."""
    op.add_column("sessions", sa.Column("extension", TEXT, nullable=True))
    op.add_column("kernels", sa.Column("takes_limit", sa.Boolean(), nullable=True))
    op.add_column("sessions", sa.Column("key_id", TEXT, nullable=True))
    op.add_column("keys", sa.Column("gpu_use_max", INT, nullable=True))
    op.add_column("keys", sa.Column("sessions_max", INT, nullable=True))
    op.add_column("keys", sa.Column("dry_run_first", sa.Boolean(), nullable=True))
    op.add_column("keys", sa.Column("gpu_use", INT, nullable=False, server_default="0"))
    op.add_column("keys", sa.Column("submitted", INT, nullable=False, server_default="0"))
