"""What the log tells of people's secrets.

Revision 0014.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Of secrets that were stored before, it tells with the next change that their owner makes."""
    op.create_table(
        "secret_names",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("set_us", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_secret_names"),
    )
