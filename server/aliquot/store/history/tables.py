"""The tables. They are in no migration: a file of its own is made when it is missing, and may be deleted at any time.

On PostgreSQL they stand beside the durable ones, which need not know them; nothing refers to them.
"""

from typing import Final

from sqlalchemy import Column, Connection, LargeBinary, MetaData, Table, text

from aliquot.store.columns import INT, TEXT

METADATA: Final = MetaData()
_LOCK: Final = 0x616C_6968
"""One key for everybody who makes these tables: `alih`."""

SERIES: Final = Table(
    "history_series",
    METADATA,
    Column("id", INT, primary_key=True),
    Column("kind", TEXT, nullable=False, index=True),
    Column("name", TEXT, nullable=False),
    Column("devices", TEXT, nullable=False),
    Column("minutes_us", INT, nullable=False),
    Column("hours_us", INT, nullable=False),
)
"""What blocks are of: an agent with its devices, as a JSON list. Up to `minutes_us` and `hours_us` it was summed up:
these tiers have all of it."""
BLOCKS: Final = Table(
    "history_blocks",
    METADATA,
    Column("tier", INT, primary_key=True, autoincrement=False),
    Column("series", INT, primary_key=True, autoincrement=False),
    Column("start_us", INT, primary_key=True, autoincrement=False),
    Column("format", INT, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


def make_tables(connection: Connection) -> None:
    """Make what is missing."""
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        METADATA.create_all(connection)
