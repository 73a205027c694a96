"""What is over by itself: findings, alerts, notices and the leases that no kernel has, with their holdings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, Row, Table, exists, select, true

from aliquot.service.retention.ports import Kind
from aliquot.store.archive.old_rows import OldRows
from aliquot.store.audit.tables import HOLDINGS
from aliquot.store.outbox_tables import ALERTS, DELIVERIES
from aliquot.store.seals import HOLDINGS_KIND
from aliquot.store.tables import EVENTS, FINDINGS, LEASES
from aliquot_schema.events import Entity

ROWS_MAX: Final = 50_000
"""In one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Closed:
    table: Table
    entity: Entity
    end: str
    """The column that says when it was over."""
    is_alone: ColumnElement[bool]
    """Whether it goes by itself, and not with something else."""


_CLOSED: Final[Mapping[Kind, _Closed]] = {
    Kind.FINDINGS: _Closed(table=FINDINGS, entity=Entity.FINDING, end="closed_us", is_alone=true()),
    Kind.ALERTS: _Closed(table=ALERTS, entity=Entity.ALERT, end="closed_us", is_alone=true()),
    Kind.DELIVERIES: _Closed(table=DELIVERIES, entity=Entity.DELIVERY, end="ended_us", is_alone=true()),
    Kind.LEASES: _Closed(table=LEASES, entity=Entity.LEASE, end="released_us", is_alone=LEASES.c.kernel_id.is_(None)),
}


def old(connection: Connection, kind: Kind, *, before_us: int) -> Sequence[Row[str, int, int]]:
    """(id, version, when it was over) of rows that may go, the oldest first: their events have gone."""
    of = _CLOSED[kind]
    ended_us: ColumnElement[int] = of.table.c[of.end]
    told = exists().where(EVENTS.c.entity_id == of.table.c.id, EVENTS.c.entity == of.entity.value)
    asked = select(of.table.c.id, of.table.c.version, ended_us.label("ended_us"))
    asked = asked.where(ended_us < before_us, of.is_alone, ~told).order_by(ended_us, of.table.c.id).limit(ROWS_MAX)
    return connection.execute(asked).all()


def old_rows(kind: Kind) -> OldRows:
    """What goes together; leases with their holdings."""
    own = {kind.value: _CLOSED[kind].table}
    return OldRows(tables={**own, HOLDINGS_KIND: HOLDINGS} if kind is Kind.LEASES else own, belongs=_belongs)


def _belongs(table: Table, names: Sequence[str]) -> ColumnElement[bool]:
    return (HOLDINGS.c.lease_id if table is HOLDINGS else table.c.id).in_(names)
