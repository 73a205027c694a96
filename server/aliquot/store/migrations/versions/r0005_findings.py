"""What the reaper finds.

Revision 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Nothing was found yet."""
    op.create_table(
        "findings",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("agent_id", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("evidence", TEXT, nullable=False),
        sa.Column("repair", TEXT, nullable=True),
        sa.Column("found_us", INT, nullable=False),
        sa.Column("closed_us", INT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_findings"),
    )
    condition = sa.text("closed_us IS NULL")
    op.create_index("ix_findings_open", "findings", ["id"], sqlite_where=condition, postgresql_where=condition)
