"""Whether the orchestrator is stopped.

Revision 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """It runs, as it always has."""
    op.create_table(
        "orchestration",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("changed_by", TEXT, nullable=False),
        sa.Column("changed_us", INT, nullable=False),
        sa.Column("note", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_orchestration"),
    )
