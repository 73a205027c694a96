"""The relay, over PostgreSQL. Each statement looks at the counter by itself whose term it is."""

import asyncio
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    LargeBinary,
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

from aliquot.service.leadership.relaying.ports import Told
from aliquot.service.leadership.relaying.sheet import Sheet
from aliquot.store.columns import INT
from aliquot.store.relay.packing import FORMAT, packed, unpacked
from aliquot.store.relay.tables import READINGS
from aliquot.store.runner import Runner
from aliquot.store.tables import COUNTER

_ROW: Final = 1
_NOW_US: Final = cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)


class PostgresRelay:
    """`aliquot.service.leadership.relaying.ports.ReadingsRelay`; what the methods promise is said there."""

    def __init__(self, database: Runner) -> None:
        self._database: Final = database

    async def put(self, sheet: Sheet, *, epoch: int, number: int) -> bool:
        body = await asyncio.to_thread(packed, sheet)
        return await self._database.write(partial(_put, epoch=epoch, number=number, body=body))

    async def keep(self, *, epoch: int, number: int) -> bool:
        return await self._database.write(partial(_keep, epoch=epoch, number=number))

    async def newest(self, *, known: tuple[int, int] | None) -> Told | None:
        row = await self._database.read(partial(_newest, known=known or (0, 0)))
        if row is None:
            return None
        sheet = None if row.news is None else await asyncio.to_thread(unpacked, row.news)
        return Told(epoch=row.epoch, number=row.number, age_s=row.age_us / 1e6, sheet=sheet)


def _put(connection: Connection, *, epoch: int, number: int, body: bytes) -> bool:
    # Of the present term alone; and should that end meanwhile, not over what the next one has told.
    values: dict[Column[Any], ColumnElement[Any]] = {
        READINGS.c.id: literal(_ROW, INT),
        READINGS.c.epoch: literal(epoch, INT),
        READINGS.c.number: literal(number, INT),
        READINGS.c.told_us: _NOW_US,
        READINGS.c.format: literal(FORMAT, INT),
        READINGS.c.body: literal(body, LargeBinary),
    }
    told = insert(READINGS).from_select(list(values), select(*values.values()).where(COUNTER.c.epoch == epoch))
    newer = {column.name: told.excluded[column.name] for column in values if column is not READINGS.c.id}
    put = told.on_conflict_do_update(
        index_elements=[READINGS.c.id], set_=newer, where=READINGS.c.epoch <= told.excluded.epoch
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
    """A row of epoch, number, age_us, and news: the body when it is not known."""
    is_news = tuple_(READINGS.c.epoch, READINGS.c.number) != tuple_(literal(known[0], INT), literal(known[1], INT))
    news = case((is_news, READINGS.c.body)).label("news")
    asked = select(READINGS.c.epoch, READINGS.c.number, (_NOW_US - READINGS.c.told_us).label("age_us"), news).where(
        READINGS.c.epoch == COUNTER.c.epoch, READINGS.c.format == FORMAT
    )
    return connection.execute(asked).one_or_none()
