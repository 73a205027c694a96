"""Rows of history: series and blocks. Functions of a connection; those that write make their own transactions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from aliquot.service.history.measures import Kind
from aliquot.store.history.blocks import FORMAT
from aliquot.store.history.tables import BLOCKS, SERIES
from aliquot.store.history.tiers import DAY_US, HOUR_US, Tier
from aliquot.store.history.windows import SeriesKey
from aliquot.store.statements import insert_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow:
    """A series as it is stored."""

    id: int
    key: SeriesKey
    minutes_us: int
    """Up to here minutes have all of it."""
    hours_us: int

    def summed_us(self, tier: Tier) -> int:
        """Up to when a tier has all of it."""
        return self.minutes_us if tier is Tier.MINUTES else self.hours_us


def series(connection: Connection, *, kind: Kind | None = None, name: str | None = None) -> list[SeriesRow]:
    """All series, or those of a kind and a name, in the order in which they began."""
    asked = select(SERIES).order_by(SERIES.c.id)
    if kind is not None:
        asked = asked.where(SERIES.c.kind == kind.value, SERIES.c.name == name)
    return [_series(row) for row in connection.execute(asked)]


def one_series(connection: Connection, series_id: int) -> SeriesRow | None:
    """One series, as it is now."""
    row = connection.execute(select(SERIES).where(SERIES.c.id == series_id)).one_or_none()
    return None if row is None else _series(row)


def add_series(connection: Connection, key: SeriesKey, *, start_us: int) -> int:
    """The id of a series; made when it is not there."""
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
"""Of which series, from when, and its body."""


def add_raw(connection: Connection, blocks: Sequence[Block], *, known: dict[SeriesKey, int]) -> dict[SeriesKey, int]:
    """Write blocks in one transaction; those that are there are replaced.

    Args:
        known: ids of series; another server may have removed some.
    Returns:
        The ids of those that were not known, or not there any more.
    """
    with connection.begin():
        asked = select(SERIES.c.id).where(SERIES.c.id.in_({known[key] for key, _, _ in blocks if key in known}))
        there = set(connection.execute(asked).scalars())
        found: dict[SeriesKey, int] = {}
        for key, start_us, _ in blocks:
            if known.get(key) not in there and key not in found:
                found[key] = add_series(connection, key, start_us=start_us)
        ids = known | found
        put(connection, Tier.RAW, [(ids[key], start_us, body) for key, start_us, body in blocks])
        return found


def put(connection: Connection, tier: Tier, blocks: Sequence[tuple[int, int, bytes]]) -> None:
    """Write blocks (series, start, body) in the caller's transaction, in place of those that are there."""
    same = (BLOCKS.c.tier == tier, BLOCKS.c.series == bindparam("of"), BLOCKS.c.start_us == bindparam("at"))
    connection.execute(delete(BLOCKS).where(*same), [{"of": one, "at": start_us} for one, start_us, _ in blocks])
    insert_rows(connection, BLOCKS, [(int(tier), one, start_us, FORMAT, body) for one, start_us, body in blocks])


def bodies(connection: Connection, tier: Tier, *, of: int, since_us: int, until_us: int) -> list[bytes]:
    """Blocks of a series that begin within a time, in order; those of other formats are left out."""
    asked = select(BLOCKS.c.body).where(
        BLOCKS.c.tier == int(tier),
        BLOCKS.c.series == of,
        BLOCKS.c.start_us >= since_us,
        BLOCKS.c.start_us < until_us,
        BLOCKS.c.format == FORMAT,
    )
    return [bytes(row.body) for row in connection.execute(asked.order_by(BLOCKS.c.start_us))]


def first_start_us(connection: Connection, tier: Tier, *, of: int, since_us: int) -> int | None:
    """When the first block of a series from a time on begins."""
    asked = select(BLOCKS.c.start_us).where(
        BLOCKS.c.tier == int(tier), BLOCKS.c.series == of, BLOCKS.c.start_us >= since_us
    )
    return connection.execute(asked.order_by(BLOCKS.c.start_us).limit(1)).scalar()


def move_on(connection: Connection, tier: Tier, *, of: int, to_us: int) -> None:
    """A tier has all of a series up to a time."""
    column = SERIES.c.minutes_us if tier is Tier.MINUTES else SERIES.c.hours_us
    connection.execute(update(SERIES).where(SERIES.c.id == of).values({column: to_us}))


def remove_before(connection: Connection, tier: Tier, *, of: int, before_us: int) -> int:
    """Remove blocks of a series that begin before a time; returns how many."""
    old = delete(BLOCKS).where(BLOCKS.c.tier == int(tier), BLOCKS.c.series == of, BLOCKS.c.start_us < before_us)
    return connection.execute(old).rowcount


def has_blocks(connection: Connection, series_id: int) -> bool:
    """Whether there is anything of a series."""
    there = select(BLOCKS.c.series).where(BLOCKS.c.series == series_id).limit(1)
    return any(connection.execute(there.where(BLOCKS.c.tier == int(tier))).first() is not None for tier in Tier)


def remove_series(connection: Connection, series_id: int) -> None:
    """Remove a series that has no blocks, in a transaction of its own."""
    with connection.begin():
        connection.execute(delete(SERIES).where(SERIES.c.id == series_id))


def _series(row: Row[Any]) -> SeriesRow:
    return SeriesRow(
        id=row.id,
        key=SeriesKey(Kind(row.kind), row.name, tuple(json.loads(row.devices))),
        minutes_us=row.minutes_us,
        hours_us=row.hours_us,
    )
