"""What devices measured last, as the server that leads tells it to the others.

Revision 0017.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """One row at most, which is replaced every few seconds: not worth a log, and its body is compressed already."""
    is_postgres = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "readings",
        sa.Column("id", INT, autoincrement=False, nullable=False),
        sa.Column("epoch", INT, nullable=False),
        sa.Column("number", INT, nullable=False),
        sa.Column("told_us", INT, nullable=False),
        sa.Column("format", INT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_readings"),
        prefixes=["UNLOGGED"] if is_postgres else [],
    )
    if is_postgres:
        op.execute("ALTER TABLE readings ALTER COLUMN body SET STORAGE EXTERNAL")
