"""Series and block rows: functions of a connection, and the tables.

The tables are in no migration. They are created when missing, the SQLite file may be deleted at any time, and no other
table refers to them.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import (
    Column,
    Connection,
    LargeBinary,
    MetaData,
    Row,
    Table,
    bindparam,
    delete,
    insert,
    select,
    text,
    update,
)

from aliquot.service.history.measures import MeasureKind
from aliquot.store.columns import INT, TEXT
from aliquot.store.mapping import insert_rows
from aliquot.store.timeseries.blocks import FORMAT
from aliquot.store.timeseries.tiers import DAY_US, HOUR_US, Tier
from aliquot.store.timeseries.windows import SeriesKey

METADATA: Final = MetaData()
_LOCK: Final = 0x616C_6968
"""Key of the advisory lock held while the tables are created: `alih`."""

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
"""Series: an agent with its devices, a JSON list, or the queue. It is rolled up until `minutes_us` and `hours_us`:
these tiers are complete up to there."""
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
    """Create missing tables."""
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        METADATA.create_all(connection)


class SeriesRow(Struct, frozen=True, kw_only=True):
    """A series as it is stored."""

    id: int
    key: SeriesKey
    minutes_us: int
    """The minutes tier is complete up to this time; `hours_us` likewise."""
    hours_us: int

    def rolled_up_us(self, tier: Tier) -> int:
        """Time up to which a tier is complete."""
        return self.minutes_us if tier is Tier.MINUTES else self.hours_us


def series(connection: Connection, *, kind: MeasureKind | None = None, name: str | None = None) -> list[SeriesRow]:
    """All series, or those of a kind and a name, oldest first."""
    stmt = select(SERIES).order_by(SERIES.c.id)
    if kind is not None:
        stmt = stmt.where(SERIES.c.kind == kind.value, SERIES.c.name == name)
    return [_series(row) for row in connection.execute(stmt)]


def one_series(connection: Connection, series_id: int) -> SeriesRow | None:
    """One series as stored now; None if it was removed."""
    row = connection.execute(select(SERIES).where(SERIES.c.id == series_id)).one_or_none()
    return None if row is None else _series(row)


def add_series(connection: Connection, key: SeriesKey, *, start_us: int) -> int:
    """The id of a series, which is created if missing."""
    known = next((row for row in series(connection, kind=key.kind, name=key.name) if row.key == key), None)
    if known is not None:
        return known.id
    row = {
        "kind": key.kind.value,
        "name": key.name,
        "devices": json.dumps(key.devices),
        "minutes_us": start_us // HOUR_US * HOUR_US,
        "hours_us": start_us // DAY_US * DAY_US,
    }
    found: int = connection.execute(insert(SERIES).values(row).returning(SERIES.c.id)).scalar_one()
    return found


Block = tuple[SeriesKey, int, bytes]
"""Series, start time and body."""


def add_raw(connection: Connection, blocks: Sequence[Block], *, known: dict[SeriesKey, int]) -> dict[SeriesKey, int]:
    """Write raw blocks in one transaction, replacing existing ones.

    Args:
        known: cached ids of series; another server may have removed some of them.
    Returns:
        Ids of the series that were not cached or had been removed.
    """
    with connection.begin():
        stmt = select(SERIES.c.id).where(SERIES.c.id.in_({known[key] for key, _, _ in blocks if key in known}))
        present = set(connection.execute(stmt).scalars())
        found: dict[SeriesKey, int] = {}
        for key, start_us, _ in blocks:
            if known.get(key) not in present and key not in found:
                found[key] = add_series(connection, key, start_us=start_us)
        ids = known | found
        replace_blocks(connection, Tier.RAW, [(ids[key], start_us, body) for key, start_us, body in blocks])
        return found


def replace_blocks(connection: Connection, tier: Tier, blocks: Sequence[tuple[int, int, bytes]]) -> None:
    """Write blocks (series, start, body) in the caller's transaction, replacing existing ones."""
    same = (BLOCKS.c.tier == tier, BLOCKS.c.series == bindparam("of"), BLOCKS.c.start_us == bindparam("at"))
    connection.execute(delete(BLOCKS).where(*same), [{"of": one, "at": start_us} for one, start_us, _ in blocks])
    insert_rows(connection, BLOCKS, [(int(tier), one, start_us, FORMAT, body) for one, start_us, body in blocks])


def bodies(connection: Connection, tier: Tier, *, of: int, since_us: int, until_us: int) -> list[bytes]:
    """Blocks of a series that begin within a time, in order, without those of other formats."""
    stmt = select(BLOCKS.c.body).where(
        BLOCKS.c.tier == int(tier),
        BLOCKS.c.series == of,
        BLOCKS.c.start_us >= since_us,
        BLOCKS.c.start_us < until_us,
        BLOCKS.c.format == FORMAT,
    )
    return [bytes(row.body) for row in connection.execute(stmt.order_by(BLOCKS.c.start_us))]


def first_start_us(connection: Connection, tier: Tier, *, of: int, since_us: int) -> int | None:
    """Start of the first block of a series at or after a time; None if there is none."""
    stmt = select(BLOCKS.c.start_us).where(
        BLOCKS.c.tier == int(tier), BLOCKS.c.series == of, BLOCKS.c.start_us >= since_us
    )
    return connection.execute(stmt.order_by(BLOCKS.c.start_us).limit(1)).scalar()


def advance(connection: Connection, tier: Tier, *, of: int, to_us: int) -> None:
    """Record that a tier is complete up to a time."""
    column = SERIES.c.minutes_us if tier is Tier.MINUTES else SERIES.c.hours_us
    connection.execute(update(SERIES).where(SERIES.c.id == of).values({column: to_us}))


def remove_before(connection: Connection, tier: Tier, *, of: int, before_us: int) -> int:
    """Remove blocks of a series that begin before a time; returns their number."""
    old = delete(BLOCKS).where(BLOCKS.c.tier == int(tier), BLOCKS.c.series == of, BLOCKS.c.start_us < before_us)
    return connection.execute(old).rowcount


def has_blocks(connection: Connection, series_id: int) -> bool:
    """Whether a series has any block."""
    present = select(BLOCKS.c.series).where(BLOCKS.c.series == series_id).limit(1)
    return any(connection.execute(present.where(BLOCKS.c.tier == int(tier))).first() is not None for tier in Tier)


def remove_series(connection: Connection, series_id: int) -> None:
    """Remove a series without blocks, in a transaction of its own."""
    with connection.begin():
        connection.execute(delete(SERIES).where(SERIES.c.id == series_id))


def _series(row: Row[Any]) -> SeriesRow:
    return SeriesRow(
        id=row.id,
        key=SeriesKey(MeasureKind(row.kind), row.name, tuple(json.loads(row.devices))),
        minutes_us=row.minutes_us,
        hours_us=row.hours_us,
    )
