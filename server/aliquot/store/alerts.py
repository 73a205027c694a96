"""Alert queries: alerts and deliveries, newest first. Ids sort by creation time."""

from functools import partial
from typing import Final

from sqlalchemy import Connection, select

from aliquot.service.alerts.context import AlertQuery, DeliveryQuery
from aliquot.store.alert_tables import ALERTS, DELIVERIES
from aliquot.store.engines.database import Runner
from aliquot.store.mapping import ALERT, DELIVERY
from aliquot_schema.alerts import Alert, Delivery


class DatabaseOutbox:
    """Implements `aliquot.service.alerts.context.NoticeRecords`, which documents the methods."""

    def __init__(self, database: Runner) -> None:
        self._database: Final = database

    async def alerts(self, query: AlertQuery) -> tuple[Alert, ...]:
        return await self._database.read(partial(_alerts, query=query))

    async def deliveries(self, query: DeliveryQuery) -> tuple[Delivery, ...]:
        return await self._database.read(partial(_deliveries, query=query))


def _alerts(connection: Connection, query: AlertQuery) -> tuple[Alert, ...]:
    stmt = select(ALERTS).order_by(ALERTS.c.id.desc()).limit(query.limit)
    if query.is_open is not None:
        stmt = stmt.where(ALERTS.c.closed_us.is_(None) if query.is_open else ALERTS.c.closed_us.is_not(None))
    if query.before is not None:
        stmt = stmt.where(ALERTS.c.id < query.before)
    return tuple(ALERT.from_row(row) for row in connection.execute(stmt))


def _deliveries(connection: Connection, query: DeliveryQuery) -> tuple[Delivery, ...]:
    stmt = select(DELIVERIES).order_by(DELIVERIES.c.id.desc()).limit(query.limit)
    if query.notice_id is not None:
        stmt = stmt.where(DELIVERIES.c.notice_id == query.notice_id)
    if query.before is not None:
        stmt = stmt.where(DELIVERIES.c.id < query.before)
    return tuple(DELIVERY.from_row(row) for row in connection.execute(stmt))
