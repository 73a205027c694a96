"""The hash chain of the event log: each event's hash covers the one before it and everything the event says.

hash = SHA-256(previous hash + JSON array of the event's columns in table order, hashes aside, the payload as stored).
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, select

from aliquot.store.seals import EVENTS_KIND, seals
from aliquot.store.tables import COUNTER, EVENTS

CHAIN_START: Final = bytes(32)
"""Stands where the first event has no one before it."""
_PAGE: Final = 1000


class ChainBroken(Exception):
    """The log was changed after it was written, or events are missing."""


def event_hash(previous: bytes, *, columns: Sequence[Any], payload: bytes) -> bytes:
    """The hash of one event.

    Args:
        columns: number, at_us, kind, format, entity, entity_id, entity_version, actor, request_id, epoch, pass_number.
        payload: the new state, JSON as it is stored.
    """
    return hashlib.sha256(previous + msgspec.json.encode([*columns, msgspec.Raw(payload)])).digest()


def check_link(row: Sequence[Any], *, number: int, previous: bytes) -> bytes:
    """Check one event, in the table's column order; returns its hash.

    Args:
        number: which it has to be.
        previous: the hash of the event before it.
    Raises:
        ChainBroken: it does not fit.
    """
    *columns, prev_hash, stored, payload = row
    if columns[0] != number:
        raise ChainBroken(f"event {number} is missing; the next one is {columns[0]}")
    if prev_hash != previous or stored != event_hash(previous, columns=columns, payload=payload.encode()):
        raise ChainBroken(f"event {number} was changed after it was written")
    return bytes(stored)


def verify(connection: Connection) -> int:
    """Walk the log as far as it is in the table, from the seals on, and count its events.

    Raises:
        ChainBroken: at the first event that does not fit, or where the log ends elsewhere than the counter says.
    """
    stretches = sealed_stretches(connection)
    sealed, head = (stretches[-1].last, stretches[-1].head) if stretches else (0, CHAIN_START)
    count, number, previous = 0, sealed, head
    for row in _events(connection):
        if not count and row.number <= sealed:
            # Its removal was interrupted: it is walked up to the seal, which says what must come out.
            number, previous = row.number - 1, row.prev_hash
        number, previous, count = number + 1, check_link(tuple(row), number=number + 1, previous=previous), count + 1
        if number == sealed and previous != head:
            raise ChainBroken(f"event {number} is not the one that was sealed")
    end = connection.execute(select(COUNTER.c.number, COUNTER.c.hash)).one()
    if (end.number, end.hash) != (number, previous):
        raise ChainBroken(f"the log ends at event {number}, the counter at {end.number}")
    return count


def sealed_stretches(connection: Connection) -> list[Row[Any]]:
    """The seals of the log, in order.

    Raises:
        ChainBroken: one is missing between them.
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
