"""Who was asked to make room, in the table of who held which device.

Revision 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """The table follows the log from the beginning again."""
    for name, kind in (("preempted_us", INT), ("preempted_by", TEXT), ("preempted_pass", INT)):
        op.add_column("holdings", sa.Column(name, kind, nullable=True))
    op.execute("DELETE FROM holdings")
    op.execute("DELETE FROM marks WHERE id = 'holdings'")
