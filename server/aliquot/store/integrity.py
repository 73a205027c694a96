"""Integrity check: hash chains, the holdings table against the event log, and every row against its newest event.

`verified` stops at the first fault; `checked` collects faults. Neither changes anything.
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import Connection, and_, exists, func, select, text

from aliquot.store import hash_chain
from aliquot.store.audit.comparison import compare_holdings
from aliquot.store.hash_chain import EVENTS_KIND, ChainBroken, last_seal
from aliquot.store.ledger import encoding as ledger_chain
from aliquot.store.ledger.tables import PASSES
from aliquot.store.mapping import MAPPINGS, RecordMapping
from aliquot.store.tables import EVENTS


class VerifiedCounts(Struct, frozen=True, kw_only=True):
    """Counts of what was verified."""

    events: int
    passes: int
    unwritten: int
    """Passes that events name and that the ledger lacks."""
    holdings: int
    """Holdings compared with the log: those the table already has and the log still covers."""


def verified(connection: Connection) -> VerifiedCounts:
    """Verify all hash chains, and compare the holdings table with the log.

    Raises:
        ChainBroken: at the first entry that was changed or is missing.
    """
    return VerifiedCounts(
        events=hash_chain.verify(connection),
        passes=ledger_chain.verify(connection),
        unwritten=_unrecorded_passes(connection),
        holdings=compare_holdings(connection),
    )


def _unrecorded_passes(connection: Connection) -> int:
    first, last = connection.execute(select(func.min(PASSES.c.number), func.max(PASSES.c.number))).one()
    if first is None:
        return 0
    has_entry = exists().where(PASSES.c.number == EVENTS.c.pass_number)
    stmt = select(func.count(EVENTS.c.pass_number.distinct()))
    return connection.execute(stmt.where(EVENTS.c.pass_number.between(first, last), ~has_entry)).scalar_one()


SHOWN_MAX: Final = 20
"""Faults reported per table."""
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error)
"""What stored values raise that no version of Aliquot wrote."""


class IntegrityResult(Struct, frozen=True, kw_only=True):
    """Result of an integrity check."""

    faults: list[str]
    """One sentence per fault."""
    holdings: int = 0
    """See `VerifiedCounts`."""


def checked(connection: Connection) -> IntegrityResult:
    """Check the whole database. A damaged file is reported without reading further."""
    found, holdings = list(_file_faults(connection)), 0
    if found:
        return IntegrityResult(faults=found)
    try:
        holdings = verified(connection).holdings
    except ChainBroken as broken:
        found.append(str(broken))
    except _UNREADABLE as error:
        found.append(f"a chain or the table of holdings cannot be read: {_named(error)}")
    for mapping in MAPPINGS.values():
        found += list(_row_faults(connection, mapping))[:SHOWN_MAX]
    return IntegrityResult(faults=found, holdings=holdings)


def _file_faults(connection: Connection) -> Iterator[str]:
    if connection.dialect.name == "sqlite":
        lines = connection.execute(text("PRAGMA integrity_check(20)")).scalars().all()
        yield from (f"the file is damaged: {line}" for line in lines if line != "ok")


def _row_faults(connection: Connection, mapping: RecordMapping[Any]) -> Iterator[str]:
    """Rows that differ from their newest event, events without a row, and rows without an event, sealed or not."""
    table, entity = mapping.table, mapping.entity.value
    is_sealed = last_seal(connection, EVENTS_KIND) is not None
    newest = select(EVENTS.c.entity_id.label("id"), func.max(EVENTS.c.entity_version).label("version"))
    newest = newest.where(EVENTS.c.entity == entity).group_by(EVENTS.c.entity_id)
    newest_versions = newest.subquery()
    joined = newest_versions.outerjoin(table, table.c.id == newest_versions.c.id)
    for row in connection.execute(select(newest_versions.c.id).select_from(joined).where(table.c.id.is_(None))):
        yield f"{table.name}: {row.id} has events and no row"
    alike = and_(
        EVENTS.c.entity_id == table.c.id, EVENTS.c.entity_version == table.c.version, EVENTS.c.entity == entity
    )
    stmt = select(table, EVENTS.c.payload).select_from(table.outerjoin(EVENTS, alike)).order_by(table.c.id)
    for row in connection.execute(stmt.execution_options(yield_per=500)):
        *values, payload = tuple(row)
        if payload is None and (not is_sealed or _has_events(connection, mapping, row.id)):
            yield f"{table.name}: {row.id} has version {row.version}, and no event recorded that version"
        elif payload is not None and (fault := _difference(mapping, values, payload)) is not None:
            yield f"{table.name}: {row.id} {fault}"


def _difference(mapping: RecordMapping[Any], values: list[Any], payload: str) -> str | None:
    """How a row differs from its newest event; None if it does not."""
    try:
        newest = mapping.from_payload(payload)
    except _UNREADABLE as error:
        return f"has a newest event that cannot be read: {_named(error)}"
    try:
        return None if mapping.matches(values, newest) else "differs from its newest event"
    except _UNREADABLE as error:
        return f"cannot be read: {_named(error)}"


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _has_events(connection: Connection, mapping: RecordMapping[Any], entity_id: str) -> bool:
    """Whether the log still has events of this record; otherwise they are sealed."""
    found = exists().where(EVENTS.c.entity_id == entity_id, EVENTS.c.entity == mapping.entity.value)
    return bool(connection.execute(select(found)).scalar_one())
