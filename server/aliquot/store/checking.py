"""Checking: whether a database is whole, and its tables say what its log says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, and_, exists, func, select, text

from aliquot.store.chain import ChainBroken
from aliquot.store.mapping import MAPPINGS, RecordMapping
from aliquot.store.seals import EVENTS_KIND, last_seal
from aliquot.store.tables import EVENTS
from aliquot.store.verification import verified

SHOWN_MAX: Final = 20
"""Differences told of each table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found; nothing is changed."""

    faults: list[str]
    """What is wrong, in words."""
    holdings: int = 0
    """How many are as the log says, see `Verified`."""


def checked(connection: Connection) -> Checked:
    """Check all of it, as far as the file can be read."""
    found, holdings = list(_damage(connection)), 0
    if found:
        return Checked(faults=found)
    try:
        holdings = verified(connection).holdings
    except ChainBroken as broken:
        found.append(str(broken))
    for mapping in MAPPINGS.values():
        found += list(_differences(connection, mapping))[:SHOWN_MAX]
    return Checked(faults=found, holdings=holdings)


def _damage(connection: Connection) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        told = connection.execute(text("PRAGMA integrity_check(20)")).scalars().all()
        yield from (f"the file is damaged: {line}" for line in told if line != "ok")


def _differences(connection: Connection, mapping: RecordMapping[Any]) -> Iterator[str]:
    """Rows that are not as their newest event says; an event without a row, a row without an event, sealed or not."""
    table, entity = mapping.table, mapping.entity.value
    is_sealed = last_seal(connection, EVENTS_KIND) is not None
    newest = select(EVENTS.c.entity_id.label("id"), func.max(EVENTS.c.entity_version).label("version"))
    newest = newest.where(EVENTS.c.entity == entity).group_by(EVENTS.c.entity_id)
    sub = newest.subquery()
    joined = sub.outerjoin(table, table.c.id == sub.c.id)
    for row in connection.execute(select(sub.c.id).select_from(joined).where(table.c.id.is_(None))):
        yield f"{table.name}: {row.id} has events, and no row"
    alike = and_(
        EVENTS.c.entity_id == table.c.id, EVENTS.c.entity_version == table.c.version, EVENTS.c.entity == entity
    )
    told = select(table, EVENTS.c.payload).select_from(table.outerjoin(EVENTS, alike)).order_by(table.c.id)
    for row in connection.execute(told.execution_options(yield_per=500)):
        *values, payload = tuple(row)
        if payload is None and (not is_sealed or _has_events(connection, mapping, row.id)):
            yield f"{table.name}: {row.id} has version {row.version}, which no event tells of"
        elif payload is not None and not mapping.tells_of(values, mapping.from_payload(payload)):
            yield f"{table.name}: {row.id} is not what its newest event says"


def _has_events(connection: Connection, mapping: RecordMapping[Any], entity_id: str) -> bool:
    """Whether the log still tells of it; else what told of it is sealed."""
    told = exists().where(EVENTS.c.entity_id == entity_id, EVENTS.c.entity == mapping.entity.value)
    return bool(connection.execute(select(told)).scalar_one())
