"""Evicting drains, revision 0026: the operator whose drain preempts the sessions of an agent."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; sessions of agents that are drained already were preempted once."""
    op.add_column("agents", sa.Column("evicted_by", TEXT, nullable=True))
