"""What is over by itself: findings, alerts, notices and the leases that no kernel has, with their holdings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, exists, select, true

from aliquot.service.retention.ports import Kind
from aliquot.store.archive.sealing import Stretch, check_epoch, next_id
from aliquot.store.audit.tables import HOLDINGS
from aliquot.store.outbox_tables import ALERTS, DELIVERIES
from aliquot.store.tables import EVENTS, FINDINGS, LEASES
from aliquot_schema.events import Entity

ROWS_MAX: Final = 50_000
"""In one file."""
HOLDINGS_KIND: Final = "holdings"


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


def stretches(connection: Connection, kind: Kind, *, first: int, last: int) -> dict[str, tuple[Stretch, Sequence[Any]]]:
    """What is sealed together, with its columns, by kind; the rows are still to be counted."""
    return {
        name: (Stretch(id=next_id(connection, name), kind=name, first=first, last=last, rows=0), tuple(table.c))
        for name, table in _tables(kind).items()
    }


def rows_of(connection: Connection, kind: Kind, *, part: str, names: Sequence[str]) -> list[Row[Any]]:
    """Rows by their ids; `part` is the kind itself, or the holdings that belong to it."""
    table = _tables(kind)[part]
    asked = select(table).where(_belongs(table, names)).order_by(*table.primary_key.columns)
    return list(connection.execute(asked).all())


def remove(connection: Connection, kind: Kind, versions: Mapping[str, int], *, epoch: int | None) -> int:
    """Remove these, unless they were changed meanwhile; returns how many went."""
    table = _CLOSED[kind].table
    with connection.begin():
        asked = select(table.c.id, table.c.version).where(table.c.id.in_(versions)).with_for_update()
        names = [row.id for row in connection.execute(asked) if row.version == versions[row.id]]
        for one in _tables(kind).values():
            connection.execute(delete(one).where(_belongs(one, names)))
        check_epoch(connection, epoch)  # at the end, as commits do: the other way round they could wait for each other
        return len(names)


def _tables(kind: Kind) -> dict[str, Table]:
    own = {kind.value: _CLOSED[kind].table}
    return {**own, HOLDINGS_KIND: HOLDINGS} if kind is Kind.LEASES else own


def _belongs(table: Table, names: Sequence[str]) -> ColumnElement[bool]:
    return (HOLDINGS.c.lease_id if table is HOLDINGS else table.c.id).in_(names)
