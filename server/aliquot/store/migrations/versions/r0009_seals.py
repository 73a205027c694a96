"""What was archived, or removed, when it was old.

Revision 0009.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Everything is still in the tables."""
    op.create_table(
        "seals",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("first", INT, nullable=False),
        sa.Column("last", INT, nullable=False),
        sa.Column("rows", INT, nullable=False),
        sa.Column("at_us", INT, nullable=False),
        sa.Column("file", TEXT, nullable=True),
        sa.Column("sha256", TEXT, nullable=True),
        sa.Column("head", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_seals"),
    )
