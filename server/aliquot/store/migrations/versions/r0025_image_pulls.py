"""Image pulls, revision 0025: the progress of the pull of a session's image."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; no pull was recorded before."""
    op.add_column("sessions", sa.Column("pull", TEXT, nullable=True))
