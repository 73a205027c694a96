"""Readings relay: one row through which the leader passes device readings to followers, on PostgreSQL.

Each statement checks the epoch in the counter itself. A snapshot of 8,000 devices takes a few milliseconds to encode or
decode, and 100 KB. The table is unlogged: a crash of the database empties it until the next snapshot. SQLite has the
table too, unused, so that both schemas are alike; an exported row is too old to be used wherever it is imported.
"""

import asyncio
import zlib
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    case,
    cast,
    extract,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from aliquot.service.leadership.readings_relay import PublishedReadings, ReadingsSnapshot
from aliquot.store.columns import INT, METADATA, TableRow, bytes_column, number_column, number_key
from aliquot.store.engines.database import Runner
from aliquot.store.tables import COUNTER

FORMAT: Final = 1
_FAST: Final = 1
"""zlib level."""
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(ReadingsSnapshot)


def packed(sheet: ReadingsSnapshot) -> bytes:
    """Encode a snapshot as compressed JSON."""
    return zlib.compress(_ENCODER.encode(sheet), _FAST)


def unpacked(body: bytes) -> ReadingsSnapshot:
    """The inverse of `packed`."""
    return _DECODER.decode(zlib.decompress(body))


class ReadingsRow(TableRow, table=True):
    """One snapshot of one term."""

    __tablename__ = "readings"

    id: int = number_key()
    """Always 1."""
    epoch: int = number_column()
    number: int = number_column()
    told_us: int = number_column()
    """Time of the snapshot by the clock of the database, which also computes its age; microseconds UTC."""
    format: int = number_column()
    body: bytes = bytes_column()


READINGS: Final[Table] = METADATA.tables["readings"]

_ROW: Final = 1
_NOW_US: Final = cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)


class PostgresRelay:
    """Implements `aliquot.service.leadership.readings_relay.ReadingsRelay`, which documents the methods."""

    def __init__(self, database: Runner) -> None:
        self._database: Final = database

    async def put(self, sheet: ReadingsSnapshot, *, epoch: int, number: int) -> bool:
        body = await asyncio.to_thread(packed, sheet)
        return await self._database.write(partial(_put, epoch=epoch, number=number, body=body))

    async def keep(self, *, epoch: int, number: int) -> bool:
        return await self._database.write(partial(_keep, epoch=epoch, number=number))

    async def newest(self, *, known: tuple[int, int] | None) -> PublishedReadings | None:
        row = await self._database.read(partial(_newest, known=known or (0, 0)))
        if row is None:
            return None
        sheet = None if row.news is None else await asyncio.to_thread(unpacked, row.news)
        return PublishedReadings(epoch=row.epoch, number=row.number, age_s=row.age_us / 1e6, sheet=sheet)


def _put(connection: Connection, *, epoch: int, number: int, body: bytes) -> bool:
    # Only in the present term, and never over a snapshot of a later term that began meanwhile.
    values: dict[Column[Any], ColumnElement[Any]] = {
        READINGS.c.id: literal(_ROW, INT),
        READINGS.c.epoch: literal(epoch, INT),
        READINGS.c.number: literal(number, INT),
        READINGS.c.told_us: _NOW_US,
        READINGS.c.format: literal(FORMAT, INT),
        READINGS.c.body: literal(body, LargeBinary),
    }
    inserted = insert(READINGS).from_select(list(values), select(*values.values()).where(COUNTER.c.epoch == epoch))
    newer = {column.name: inserted.excluded[column.name] for column in values if column is not READINGS.c.id}
    put = inserted.on_conflict_do_update(
        index_elements=[READINGS.c.id], set_=newer, where=READINGS.c.epoch <= inserted.excluded.epoch
    )
    with connection.begin():
        return connection.execute(put.returning(READINGS.c.id)).one_or_none() is not None


def _keep(connection: Connection, *, epoch: int, number: int) -> bool:
    keep = (
        update(READINGS)
        .where(READINGS.c.epoch == epoch, READINGS.c.number == number, COUNTER.c.epoch == READINGS.c.epoch)
        .values(told_us=_NOW_US)
        .returning(READINGS.c.id)
    )
    with connection.begin():
        return connection.execute(keep).one_or_none() is not None


def _newest(connection: Connection, *, known: tuple[int, int]) -> Any:
    """A row of epoch, number, age_us and news: the body, null if the caller has it already."""
    is_news = tuple_(READINGS.c.epoch, READINGS.c.number) != tuple_(literal(known[0], INT), literal(known[1], INT))
    news = case((is_news, READINGS.c.body)).label("news")
    stmt = select(READINGS.c.epoch, READINGS.c.number, (_NOW_US - READINGS.c.told_us).label("age_us"), news).where(
        READINGS.c.epoch == COUNTER.c.epoch, READINGS.c.format == FORMAT
    )
    return connection.execute(stmt).one_or_none()
