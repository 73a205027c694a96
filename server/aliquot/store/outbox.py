"""The outbox, over a database: alerts and deliveries, the newest first. Their ids sort by time of birth."""

from functools import partial
from typing import Final

from sqlalchemy import Connection, select

from aliquot.service.notices.ports import AlertQuery, DeliveryQuery
from aliquot.store.mapping import ALERT, DELIVERY
from aliquot.store.outbox_tables import ALERTS, DELIVERIES
from aliquot.store.runner import Runner
from aliquot_schema.notices import Alert, Delivery


class DatabaseOutbox:
    """`aliquot.service.notices.ports.NoticeRecords`; what the methods promise is said there."""

    def __init__(self, database: Runner) -> None:
        self._database: Final = database

    async def alerts(self, query: AlertQuery) -> tuple[Alert, ...]:
        return await self._database.read(partial(_alerts, query=query))

    async def deliveries(self, query: DeliveryQuery) -> tuple[Delivery, ...]:
        return await self._database.read(partial(_deliveries, query=query))


def _alerts(connection: Connection, query: AlertQuery) -> tuple[Alert, ...]:
    asked = select(ALERTS).order_by(ALERTS.c.id.desc()).limit(query.limit)
    if query.is_open is not None:
        asked = asked.where(ALERTS.c.closed_us.is_(None) if query.is_open else ALERTS.c.closed_us.is_not(None))
    if query.before is not None:
        asked = asked.where(ALERTS.c.id < query.before)
    return tuple(ALERT.from_row(row) for row in connection.execute(asked))


def _deliveries(connection: Connection, query: DeliveryQuery) -> tuple[Delivery, ...]:
    asked = select(DELIVERIES).order_by(DELIVERIES.c.id.desc()).limit(query.limit)
    if query.notice_id is not None:
        asked = asked.where(DELIVERIES.c.notice_id == query.notice_id)
    if query.before is not None:
        asked = asked.where(DELIVERIES.c.id < query.before)
    return tuple(DELIVERY.from_row(row) for row in connection.execute(asked))
