"""Host use, revision 0021: CPU time and host memory that the processes of an ended kernel have used."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; kernels of earlier versions were not measured."""
    op.add_column("kernels", sa.Column("host_use", TEXT, nullable=True))
