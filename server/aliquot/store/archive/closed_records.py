"""Closed records in the archive: findings, alerts, deliveries, and leases without a kernel, with their holdings."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from sqlalchemy import ColumnElement, Connection, Row, Table, exists, select, true

from aliquot.service.retention import RetainedKind
from aliquot.store.archive.old_rows import OldRows
from aliquot.store.audit.holdings import HOLDINGS
from aliquot.store.hash_chain import HOLDINGS_KIND
from aliquot.store.mapping import ALERT, DELIVERY, FINDING, LEASE, RecordMapping
from aliquot.store.tables import EVENTS, LEASES
from aliquot_schema.events import KIND_OF

ROWS_MAX: Final = 50_000
"""Rows per file."""


class _Closed(Struct, frozen=True, kw_only=True):
    mapping: RecordMapping[Any]
    is_independent: ColumnElement[bool] = field(default_factory=true)
    """Whether a row is archived by itself, not with its session."""


_CLOSED: Final[Mapping[RetainedKind, _Closed]] = {
    RetainedKind.FINDINGS: _Closed(mapping=FINDING),
    RetainedKind.ALERTS: _Closed(mapping=ALERT),
    RetainedKind.DELIVERIES: _Closed(mapping=DELIVERY),
    RetainedKind.LEASES: _Closed(mapping=LEASE, is_independent=LEASES.c.kernel_id.is_(None)),
}


def old(connection: Connection, kind: RetainedKind, *, before_us: int) -> Sequence[Row[str, int, int]]:
    """(id, version, ended_us) of rows that may be archived, oldest first: their events are archived already."""
    closed = _CLOSED[kind]
    table, end = closed.mapping.table, KIND_OF[closed.mapping.record].end
    assert end is not None, f"{kind} never end"
    ended_us: ColumnElement[int] = table.c[end]
    has_events = exists().where(EVENTS.c.entity_id == table.c.id, EVENTS.c.entity == closed.mapping.entity.value)
    stmt = select(table.c.id, table.c.version, ended_us.label("ended_us"))
    stmt = (
        stmt.where(ended_us < before_us, closed.is_independent, ~has_events)
        .order_by(ended_us, table.c.id)
        .limit(ROWS_MAX)
    )
    return connection.execute(stmt).all()


def old_rows(kind: RetainedKind) -> OldRows:
    """The tables archived together: leases with their holdings, other kinds alone."""
    own = {kind.value: _CLOSED[kind].mapping.table}
    return OldRows(tables={**own, HOLDINGS_KIND: HOLDINGS} if kind is RetainedKind.LEASES else own, belongs=_belongs_to)


def _belongs_to(table: Table, names: Sequence[str]) -> ColumnElement[bool]:
    return (HOLDINGS.c.lease_id if table is HOLDINGS else table.c.id).in_(names)
