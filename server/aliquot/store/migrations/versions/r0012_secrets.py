"""What people store for their sessions, encrypted.

Revision 0012.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nobody has stored anything, so far."""
    op.create_table(
        "secrets",
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("key_id", TEXT, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_us", INT, nullable=False),
        sa.Column("changed_us", INT, nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_secrets"),
    )
