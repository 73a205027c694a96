"""Who may come in, and by which keys.

Revision 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nobody but the holder of the server's token, so far."""
    op.create_table(
        "users",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("role", INT, nullable=False),
        sa.Column("unix_name", TEXT, nullable=True),
        sa.Column("projects", TEXT, nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_us", INT, nullable=False),
        sa.Column("changed_us", INT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
    )
    op.create_table(
        "keys",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("created_us", INT, nullable=False),
        sa.Column("expires_us", INT, nullable=True),
        sa.Column("revoked_us", INT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
    )
