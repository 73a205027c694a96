"""Saved work, revision 0019: which checkpoint of a session is acknowledged, and the work that it lost."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; sessions of earlier versions have no record."""
    op.add_column("sessions", sa.Column("work", TEXT, nullable=True))
