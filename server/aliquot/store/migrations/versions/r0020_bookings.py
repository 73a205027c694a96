"""Bookings, revision 0020: devices of users, and nodes under maintenance, for windows of time."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "bookings",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("version", INT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("owner", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=False),
        sa.Column("pool", TEXT, nullable=False),
        sa.Column("gpus", INT, nullable=False),
        sa.Column("models", TEXT, nullable=False),
        sa.Column("wanted", TEXT, nullable=False),
        sa.Column("nodes", TEXT, nullable=False),
        sa.Column("starts_us", INT, nullable=False),
        sa.Column("ends_us", INT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("devices", TEXT, nullable=False),
        sa.Column("extends_to_us", INT, nullable=True),
        sa.Column("no_show_after_ms", INT, nullable=True),
        sa.Column("used_us", INT, nullable=True),
        sa.Column("series", TEXT, nullable=True),
        sa.Column("created_us", INT, nullable=False),
        sa.Column("refusal", TEXT, nullable=True),
        sa.Column("covered", INT, nullable=False),
        sa.Column("held_back", INT, nullable=False),
        sa.Column("ended_us", INT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_bookings"),
    )
    op.create_index(
        "ix_bookings_open",
        "bookings",
        ["id"],
        sqlite_where=sa.text("ended_us IS NULL"),
        postgresql_where=sa.text("ended_us IS NULL"),
    )
