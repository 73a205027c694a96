"""What administrators do that changes no other record.

Revision 0016.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Of what was done before, the log tells nothing."""
    op.create_table(
        "actions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("facts", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_actions"),
    )
