"""Statement verification: computes the statements again from the event log and its archives, and compares them.

Sealed events are read from their archives; without all of them, a recount is not possible, which is no fault.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, exists, select

from aliquot.core.billing.recount import Recount
from aliquot.store.archive.folder import has_parquet, rows_of
from aliquot.store.hash_chain import EVENTS_KIND, SEALS
from aliquot.store.mapping import BY_ENTITY, STATEMENT
from aliquot.store.tables import EVENTS, STATEMENTS
from aliquot_schema.events import Entity

COUNTED: Final = frozenset(
    entity.value for entity in (Entity.AGENT, Entity.KERNEL, Entity.LEASE, Entity.POLICY, Entity.SESSION)
)
"""Entities whose events make statements."""
SHOWN_MAX: Final = 20
PAGE: Final = 500


def statement_faults(connection: Connection, *, folder: Path) -> list[str] | None:
    """What differs between the stored statements and the event log, at most `SHOWN_MAX` sentences.

    Args:
        folder: of the archives.
    Returns:
        None if the beginning of the log is neither in the database nor in the archives.
    """
    if not connection.execute(select(exists().select_from(STATEMENTS))).scalar():
        return []
    files = _sealed_files(connection, folder)
    if files is None:
        return None
    counted = Recount()
    last = 0
    for number, entity, payload in _archived(files):
        counted.apply(BY_ENTITY[entity].from_payload(payload))
        last = max(last, number)
    stmt = select(EVENTS.c.entity, EVENTS.c.payload).where(EVENTS.c.entity.in_(COUNTED), EVENTS.c.number > last)
    for entity, payload in connection.execute(stmt.order_by(EVENTS.c.number).execution_options(yield_per=PAGE)):
        counted.apply(BY_ENTITY[entity].from_payload(payload))
    stored = (STATEMENT.from_row(tuple(row)) for row in connection.execute(select(STATEMENTS)))
    return list(counted.faults(stored))[:SHOWN_MAX]


def _sealed_files(connection: Connection, folder: Path) -> list[Path] | None:
    """The archives of the events, oldest first; None if one is missing or cannot be read."""
    stmt = select(SEALS.c.file).where(SEALS.c.kind == EVENTS_KIND).order_by(SEALS.c.first)
    names = list(connection.execute(stmt).scalars())
    if not names:
        return []
    if not has_parquet() or any(name is None or not (folder / name).exists() for name in names):
        return None
    return [folder / name for name in names]


def _archived(files: list[Path]) -> Iterator[tuple[int, str, str]]:
    """(number, entity, payload) of the counted events in the archives, in order."""
    for path in files:
        for rows in rows_of(path):
            for row in rows:
                if row["entity"] in COUNTED:
                    yield row["number"], row["entity"], row["payload"]
