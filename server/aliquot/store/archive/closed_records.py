"""Closed records in the archive: findings, alerts, deliveries, and leases without a kernel, with their holdings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, Row, Table, exists, select, true

from aliquot.service.retention import RetainedKind
from aliquot.store.alert_tables import ALERTS, DELIVERIES
from aliquot.store.archive.old_rows import OldRows
from aliquot.store.audit.holdings import HOLDINGS
from aliquot.store.hash_chain import HOLDINGS_KIND
from aliquot.store.tables import EVENTS, FINDINGS, LEASES
from aliquot_schema.events import Entity

ROWS_MAX: Final = 50_000
"""Rows per file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Closed:
    table: Table
    entity: Entity
    end: str
    """Column with the time of the end."""
    is_independent: ColumnElement[bool]
    """Whether a row is archived by itself, not with its session."""


_CLOSED: Final[Mapping[RetainedKind, _Closed]] = {
    RetainedKind.FINDINGS: _Closed(table=FINDINGS, entity=Entity.FINDING, end="closed_us", is_independent=true()),
    RetainedKind.ALERTS: _Closed(table=ALERTS, entity=Entity.ALERT, end="closed_us", is_independent=true()),
    RetainedKind.DELIVERIES: _Closed(table=DELIVERIES, entity=Entity.DELIVERY, end="ended_us", is_independent=true()),
    RetainedKind.LEASES: _Closed(
        table=LEASES, entity=Entity.LEASE, end="released_us", is_independent=LEASES.c.kernel_id.is_(None)
    ),
}


def old(connection: Connection, kind: RetainedKind, *, before_us: int) -> Sequence[Row[str, int, int]]:
    """(id, version, ended_us) of rows that may be archived, oldest first: their events are archived already."""
    closed = _CLOSED[kind]
    ended_us: ColumnElement[int] = closed.table.c[closed.end]
    has_events = exists().where(EVENTS.c.entity_id == closed.table.c.id, EVENTS.c.entity == closed.entity.value)
    stmt = select(closed.table.c.id, closed.table.c.version, ended_us.label("ended_us"))
    stmt = (
        stmt.where(ended_us < before_us, closed.is_independent, ~has_events)
        .order_by(ended_us, closed.table.c.id)
        .limit(ROWS_MAX)
    )
    return connection.execute(stmt).all()


def old_rows(kind: RetainedKind) -> OldRows:
    """The tables archived together: leases with their holdings, other kinds alone."""
    own = {kind.value: _CLOSED[kind].table}
    return OldRows(tables={**own, HOLDINGS_KIND: HOLDINGS} if kind is RetainedKind.LEASES else own, belongs=_belongs_to)


def _belongs_to(table: Table, names: Sequence[str]) -> ColumnElement[bool]:
    return (HOLDINGS.c.lease_id if table is HOLDINGS else table.c.id).in_(names)
