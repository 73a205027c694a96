"""Backtest table: the newest backtests and tunings of all servers, with their results."""

import logging
import zlib
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Row, Table, delete, select, update

from aliquot.service.backtests.ports import KEPT_MAX, OPEN, BacktestOrder, StoredBacktest
from aliquot.store.columns import METADATA, TableRow, bytes_column, number_column, text_column, text_key
from aliquot.store.engines.database import Runner, upsert
from aliquot.store.mapping import ENCODER, decoder
from aliquot_schema.views.backtests import BacktestReport, BacktestView, TuningReport

FORMAT: Final = 1
"""Of summaries and results. Rows of another format are not shown."""


class BacktestRow(TableRow, table=True):
    """`BacktestView`."""

    __tablename__ = "backtests"

    id: str = text_key()
    is_open: bool
    """Whether it has not ended."""
    saved_us: int = number_column()
    format: int = number_column()
    summary: str = text_column()
    """The view without its result, as JSON."""
    result: bytes | None = bytes_column()
    """`BacktestResult` as JSON, zlib-compressed; null = no result and no order."""


class BacktestResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a backtest or tuning, or its order until it has one."""

    report: BacktestReport | None
    tuning: TuningReport | None
    order: BacktestOrder | None = None


BACKTESTS: Final[Table] = METADATA.tables["backtests"]
_SUMMARY: Final = msgspec.json.Decoder(BacktestView)
_RESULT: Final = decoder(BacktestResult)
_ENCODER: Final = msgspec.json.Encoder()
log: Final = logging.getLogger("aliquot.store")


class DatabaseBacktests:
    """Implements `aliquot.service.backtests.ports.BacktestRecords`, which documents the methods."""

    def __init__(self, database: Runner) -> None:
        self._database: Final = database
        self._unreadable: deque[str] = deque(maxlen=KEPT_MAX)
        """Rows whose damage is logged, which happens once."""

    async def begin(self, view: BacktestView, order: BacktestOrder, *, now_us: int) -> None:
        values = {**_columns(view, now_us), "result": _ordered(order)}
        await self._database.write(partial(_save, values=values, id=view.id))

    async def save(self, view: BacktestView, *, now_us: int, known_us: Collection[int] = ()) -> bool:
        values = {**_columns(view, now_us), "result": _result(view)}
        if known_us:
            return await self._database.write(
                partial(_update, values=values, id=view.id, known_us=known_us, is_open=False)
            )
        await self._database.write(partial(_save, values=values, id=view.id))
        return True

    async def update(self, view: BacktestView, *, now_us: int, known_us: Collection[int] = ()) -> bool:
        return await self._database.write(
            partial(_update, values=_columns(view, now_us), id=view.id, known_us=known_us)
        )

    async def take(self, view: BacktestView, order: BacktestOrder, *, now_us: int, known_us: int) -> bool:
        values = {**_columns(view, now_us), "result": _ordered(order)}
        return await self._database.write(partial(_update, values=values, id=view.id, known_us=(known_us,)))

    async def find(self, name: str) -> StoredBacktest | None:
        return await self._database.read(partial(_find, name=name))

    async def newest(self) -> tuple[StoredBacktest, ...]:
        stored: list[StoredBacktest] = []
        for row in await self._database.read(_newest):
            try:
                stored.append(_stored(row))
            except msgspec.DecodeError as error:
                if row.id not in self._unreadable:
                    self._unreadable.append(row.id)
                    log.warning("the backtest %s cannot be read and is not shown: %s", row.id, error)
        return tuple(stored)


def _save(connection: Connection, *, values: dict[str, Any], id: str) -> None:
    put = upsert(connection, BACKTESTS).values(id=id, **values)
    newest = select(BACKTESTS.c.id).order_by(BACKTESTS.c.id.desc()).limit(KEPT_MAX)
    with connection.begin():
        connection.execute(put.on_conflict_do_update(index_elements=[BACKTESTS.c.id], set_=values))
        connection.execute(delete(BACKTESTS).where(BACKTESTS.c.id.not_in(newest)))


def _update(
    connection: Connection, *, values: dict[str, Any], id: str, known_us: Collection[int], is_open: bool = True
) -> bool:
    stmt = update(BACKTESTS).where(BACKTESTS.c.id == id)
    if is_open:
        stmt = stmt.where(BACKTESTS.c.is_open)
    if known_us:
        stmt = stmt.where(BACKTESTS.c.saved_us.in_(known_us))
    with connection.begin():
        return connection.execute(stmt.values(**values)).rowcount > 0


def _find(connection: Connection, *, name: str) -> StoredBacktest | None:
    stmt = select(BACKTESTS).where(BACKTESTS.c.id == name, BACKTESTS.c.format == FORMAT)
    row = connection.execute(stmt).one_or_none()
    if row is None:
        return None
    stored = _stored(row)
    if row.result is None:
        return stored
    result = _RESULT.decode(zlib.decompress(row.result))
    view = replace(stored.view, report=result.report, tuning=result.tuning)
    return replace(stored, view=view, order=result.order)


def _newest(connection: Connection) -> Sequence[Row[Any]]:
    columns: list[Any] = [BACKTESTS.c.id, BACKTESTS.c.summary, BACKTESTS.c.saved_us]
    stmt = select(*columns).where(BACKTESTS.c.format == FORMAT).order_by(BACKTESTS.c.id.desc()).limit(KEPT_MAX)
    return connection.execute(stmt).all()


def _stored(row: Row[Any]) -> StoredBacktest:
    return StoredBacktest(view=_SUMMARY.decode(row.summary), saved_us=row.saved_us)


def _columns(view: BacktestView, now_us: int) -> dict[str, Any]:
    summary = _ENCODER.encode(replace(view, report=None, tuning=None)).decode()
    return {"is_open": view.state in OPEN, "saved_us": now_us, "format": FORMAT, "summary": summary}


def _result(view: BacktestView) -> bytes | None:
    if view.report is None and view.tuning is None:
        return None
    return zlib.compress(ENCODER.encode(BacktestResult(report=view.report, tuning=view.tuning)))


def _ordered(order: BacktestOrder) -> bytes:
    return zlib.compress(ENCODER.encode(BacktestResult(report=None, tuning=None, order=order)))
