"""Hash chain of the event log: the hash of an event covers the event before it and everything the event records.

hash = SHA-256(previous hash + JSON array of the event's columns in table order, hashes aside, the payload as stored).
A seal records how far a chain was archived or removed, and the hash of its last link.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, Table, select

from aliquot.service.ports import StoreUnavailable
from aliquot.store.columns import METADATA, TableRow, bytes_column, number_column, text_column, text_key
from aliquot.store.tables import COUNTER, EVENTS

EVENTS_KIND: Final = "events"
HOLDINGS_KIND: Final = "holdings"


class SealRow(TableRow, table=True):
    """A range of rows that was archived or discarded, see `aliquot.store.archive`. It is written before the rows are
    removed, so some of them may still be in their table."""

    __tablename__ = "seals"

    id: str = text_key()
    """`<kind>-<number>`; also the start of the file name."""
    kind: str = text_column()
    first: int = number_column()
    """Number of the first event or pass; for other kinds the earliest end, microseconds UTC. `last` likewise."""
    last: int = number_column()
    rows: int = number_column()
    at_us: int = number_column()
    """When it was sealed, microseconds UTC."""
    file: str | None = text_column()
    """File name in the archive folder; null = the rows were discarded."""
    sha256: str | None = text_column()
    """SHA-256 of the file, as hex."""
    head: bytes | None = bytes_column()
    """Hash of the last link; null for kinds without a chain."""


SEALS: Final[Table] = METADATA.tables["seals"]


def seals(connection: Connection, kind: str) -> list[Row[Any]]:
    """All seals of a kind, oldest first."""
    rows = connection.execute(select(SEALS).where(SEALS.c.kind == kind).order_by(SEALS.c.id)).all()
    return list(rows)


def last_seal(connection: Connection, kind: str) -> Row[Any] | None:
    """The newest seal of a kind; None before the first one."""
    stmt = select(SEALS).where(SEALS.c.kind == kind).order_by(SEALS.c.id.desc()).limit(1)
    return connection.execute(stmt).one_or_none()


CHAIN_START: Final = bytes(32)
"""Previous hash of the first event."""
_PAGE: Final = 1000


class ChainBroken(Exception):
    """The log was changed after it was written, or events are missing."""


def event_hash(previous: bytes, *, columns: Sequence[Any], payload: bytes) -> bytes:
    """The hash of one event.

    Args:
        columns: number, at_us, kind, format, entity, entity_id, entity_version, actor, request_id, epoch, pass_number.
        payload: the new state, as the stored JSON text.
    """
    return hashlib.sha256(previous + msgspec.json.encode([*columns, msgspec.Raw(payload)])).digest()


def check_link(row: Sequence[Any], *, number: int, previous: bytes) -> bytes:
    """Check one event, a row in table order, and return its hash.

    Args:
        number: the expected event number.
        previous: the hash of the event before it.
    Raises:
        ChainBroken: the number or a hash differs.
    """
    *columns, prev_hash, stored, payload = row
    if columns[0] != number:
        raise ChainBroken(f"event {number} is missing; the next one is {columns[0]}")
    if prev_hash != previous or stored != event_hash(previous, columns=columns, payload=payload.encode()):
        raise ChainBroken(f"event {number} was changed after it was written")
    return bytes(stored)


def verify(connection: Connection) -> int:
    """Verify all events in the table, starting from the newest seal; returns their number.

    Raises:
        ChainBroken: at the first event that differs, or if the log does not end where the counter says.
    """
    stretches = sealed_stretches(connection)
    sealed, head = (stretches[-1].last, stretches[-1].head) if stretches else (0, CHAIN_START)
    count, number, previous = 0, sealed, head
    for row in _events(connection):
        if not count and row.number <= sealed:
            # Removal of sealed events was interrupted: verify the rest up to the seal, whose hash must result.
            number, previous = row.number - 1, row.prev_hash
        number, previous, count = number + 1, check_link(tuple(row), number=number + 1, previous=previous), count + 1
        if number == sealed and previous != head:
            raise ChainBroken(f"event {number} differs from the one that was sealed")
    end = connection.execute(select(COUNTER.c.number, COUNTER.c.hash)).one()
    if (end.number, end.hash) != (number, previous):
        raise ChainBroken(f"the log ends at event {number}, and the counter says {end.number}")
    return count


def sealed_stretches(connection: Connection) -> list[Row[Any]]:
    """The seals of the event log, oldest first.

    Raises:
        ChainBroken: a seal is missing between them.
    """
    found = seals(connection, EVENTS_KIND)
    number = 0
    for seal in found:
        if seal.first != number + 1 or seal.head is None:
            raise ChainBroken(f"the seal of event {number + 1} is missing; the next one begins at {seal.first}")
        number = seal.last
    return found


def _events(connection: Connection) -> Iterator[Row[Any]]:
    after = 0
    while rows := connection.execute(
        select(EVENTS).where(EVENTS.c.number > after).order_by(EVENTS.c.number).limit(_PAGE)
    ).all():
        yield from rows
        after = rows[-1].number


def check_seen(last: int, *, seen: int) -> None:
    """Check that the database has the events that a server has read.

    Args:
        last: the number of its last event.
    Raises:
        StoreUnavailable.
    """
    if last < seen:
        raise StoreUnavailable(too_short(last, seen))


def too_short(last: int, reached: int) -> str:
    """Words for a database that ends before an event which the cluster had reached."""
    return f"the database ends at event {last}, and the cluster of this data folder had reached event {reached}"
