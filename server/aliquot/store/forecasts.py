"""Forecast tables: records of told forecasts with their outcomes, daily counts, and the row that followers read."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Index, Row, Table, and_, delete, or_, select, tuple_, update

from aliquot.core.foresight.shown_forecasts import (
    DAY_US,
    ForecastOutcome,
    ForecastRecord,
    PackedRecord,
    SessionOutcome,
    ShownForecast,
)
from aliquot.service.foresight.ports import PublishedBoard
from aliquot.store.columns import METADATA, TableRow, bytes_column, number_column, number_key, text_column, text_key
from aliquot.store.engines.database import Runner, upsert
from aliquot.store.tables import COUNTER
from aliquot_schema.ids import SessionId

FORMAT: Final = 2
"""Of a board's body."""
_ROW: Final = 1
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(ShownForecast)


class ForecastRow(TableRow, table=True):
    """`ForecastRecord`."""

    __tablename__ = "forecasts"
    __table_args__ = (Index("ix_forecasts_made", "made_us", "session_id", "age_s"),)

    session_id: str = text_key()
    age_s: int = number_key()
    made_us: int = number_column()
    outcome: str = text_column()
    settled_us: int | None = number_column()
    ended_us: int | None = number_column()
    body: str = text_column()
    """The forecast as JSON."""


class ForecastDayRow(TableRow, table=True):
    """Sessions of one day that started without waiting for a forecast."""

    __tablename__ = "forecast_days"

    day: int = number_key()
    """Days since 1970-01-01 UTC."""
    at_once: int = number_column()


class ForecastBoardRow(TableRow, table=True):
    """The newest forecasts, for followers."""

    __tablename__ = "forecast_boards"

    id: int = number_key()
    """Always 1."""
    epoch: int = number_column()
    number: int = number_column()
    format: int = number_column()
    body: bytes = bytes_column()


FORECASTS: Final[Table] = METADATA.tables["forecasts"]
DAYS: Final[Table] = METADATA.tables["forecast_days"]
BOARDS: Final[Table] = METADATA.tables["forecast_boards"]
_KEY: Final = (FORECASTS.c.made_us, FORECASTS.c.session_id, FORECASTS.c.age_s)


class DatabaseForecasts:
    """Implements `ForecastStore` and `BoardRelay` of the service, which document the methods."""

    def __init__(self, database: Runner) -> None:
        self._database: Final = database

    async def add(self, records: Sequence[PackedRecord]) -> None:
        await self._database.write(partial(_add, records=records))

    async def settle(self, settlements: Sequence[SessionOutcome]) -> None:
        await self._database.write(partial(_settle, settlements=settlements))

    async def open_records(self, *, since_us: int) -> tuple[PackedRecord, ...]:
        return await self._database.read(partial(_open_records, since_us=since_us))

    async def settled(self, *, limit: int) -> tuple[PackedRecord, ...]:
        return await self._database.read(partial(_settled, limit=limit))

    async def page(self, after: ForecastRecord | None, *, since_us: int, limit: int) -> tuple[ForecastRecord, ...]:
        return await self._database.read(partial(_page, after=after, since_us=since_us, limit=limit))

    async def count_at_once(self, day: int, count: int) -> None:
        await self._database.write(partial(_count_at_once, day=day, count=count))

    async def days(self) -> tuple[tuple[int, int], ...]:
        return await self._database.read(_days)

    async def remove(self, before_us: int, *, limit: int) -> int:
        return await self._database.write(partial(_remove, before_us=before_us, limit=limit))

    async def put(self, board: PublishedBoard) -> None:
        await self._database.write(partial(_put, board=board))

    async def newest(self, known: tuple[int, int]) -> PublishedBoard | None:
        return await self._database.read(partial(_newest, known=known))


def _add(connection: Connection, *, records: Sequence[PackedRecord]) -> None:
    rows = [
        {
            "session_id": record.session_id,
            "age_s": record.age_s,
            "made_us": record.made_us,
            "outcome": record.outcome.value,
            "settled_us": record.settled_us,
            "ended_us": record.ended_us,
            "body": _ENCODER.encode(record.shown).decode(),
        }
        for record in (one.record() for one in records)
    ]
    with connection.begin():
        connection.execute(upsert(connection, FORECASTS).on_conflict_do_nothing(), rows)


def _settle(connection: Connection, *, settlements: Sequence[SessionOutcome]) -> None:
    with connection.begin():
        for one in settlements:
            news = {"outcome": one.outcome.value, "settled_us": one.settled_us, "ended_us": one.ended_us}
            connection.execute(update(FORECASTS).where(FORECASTS.c.session_id == one.session_id).values(news))


def _open_records(connection: Connection, *, since_us: int) -> tuple[PackedRecord, ...]:
    runs = and_(FORECASTS.c.outcome == ForecastOutcome.STARTED.value, FORECASTS.c.ended_us.is_(None))
    stmt = select(FORECASTS).where(FORECASTS.c.made_us >= since_us, or_(FORECASTS.c.settled_us.is_(None), runs))
    return tuple(PackedRecord.of(_record(row)) for row in connection.execute(stmt.order_by(*_KEY)))


def _settled(connection: Connection, *, limit: int) -> tuple[PackedRecord, ...]:
    stmt = select(FORECASTS).where(FORECASTS.c.age_s == 0, FORECASTS.c.settled_us.is_not(None))
    newest = connection.execute(stmt.order_by(*(column.desc() for column in _KEY)).limit(limit)).all()
    return tuple(PackedRecord.of(_record(row)) for row in reversed(newest))


def _page(
    connection: Connection, *, after: ForecastRecord | None, since_us: int, limit: int
) -> tuple[ForecastRecord, ...]:
    stmt = select(FORECASTS).where(FORECASTS.c.made_us >= since_us)
    if after is not None:
        stmt = stmt.where(tuple_(*_KEY) > (after.made_us, after.session_id, after.age_s))
    return tuple(_record(row) for row in connection.execute(stmt.order_by(*_KEY).limit(limit)))


def _count_at_once(connection: Connection, *, day: int, count: int) -> None:
    added = upsert(connection, DAYS).values(day=day, at_once=count)
    added = added.on_conflict_do_update(index_elements=[DAYS.c.day], set_={"at_once": DAYS.c.at_once + count})
    with connection.begin():
        connection.execute(added)


def _days(connection: Connection) -> tuple[tuple[int, int], ...]:
    return tuple((row.day, row.at_once) for row in connection.execute(select(DAYS).order_by(DAYS.c.day)))


def _remove(connection: Connection, *, before_us: int, limit: int) -> int:
    key = (FORECASTS.c.session_id, FORECASTS.c.age_s)
    old = select(*key).where(FORECASTS.c.made_us < before_us).order_by(*_KEY).limit(limit)
    with connection.begin():
        connection.execute(delete(DAYS).where(DAYS.c.day < before_us // DAY_US))
        return connection.execute(delete(FORECASTS).where(tuple_(*key).in_(old))).rowcount


def _put(connection: Connection, *, board: PublishedBoard) -> None:
    values = {"epoch": board.epoch, "number": board.number, "format": FORMAT, "body": board.body}
    put = upsert(connection, BOARDS).values(id=_ROW, **values)
    put = put.on_conflict_do_update(
        index_elements=[BOARDS.c.id], set_=values, where=BOARDS.c.epoch <= put.excluded.epoch
    )
    with connection.begin():
        connection.execute(put)


def _newest(connection: Connection, *, known: tuple[int, int]) -> PublishedBoard | None:
    stmt = select(BOARDS.c.epoch, BOARDS.c.number).where(BOARDS.c.epoch == COUNTER.c.epoch, BOARDS.c.format == FORMAT)
    key = connection.execute(stmt).one_or_none()
    if key is None or tuple(key) == known:
        return None
    body = connection.execute(select(BOARDS.c.body)).scalar_one()
    return PublishedBoard(epoch=key.epoch, number=key.number, body=body)


def _record(row: Row[Any]) -> ForecastRecord:
    return ForecastRecord(
        session_id=SessionId(row.session_id),
        age_s=row.age_s,
        shown=_DECODER.decode(row.body),
        outcome=ForecastOutcome(row.outcome),
        settled_us=row.settled_us,
        ended_us=row.ended_us,
    )
