"""The port where the ranks of a gang meet.

Revision 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Kernels that are there have none."""
    op.add_column("kernels", sa.Column("rendezvous_port", INT, nullable=True))
