"""The hash chain of the event log: each event's hash covers the one before it and everything the event says.

hash = SHA-256(previous hash + JSON array of the event's columns in table order, hashes aside, the payload as stored).
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select

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


def verify(connection: Connection) -> int:
    """Walk the whole log and count its events.

    Raises:
        ChainBroken: at the first event that does not fit, or where the log ends elsewhere than the counter says.
    """
    number, previous = 0, CHAIN_START
    for row in _events(connection):
        *columns, prev_hash, stored, payload = row
        if columns[0] != number + 1:
            raise ChainBroken(f"event {number + 1} is missing; the next one is {columns[0]}")
        if prev_hash != previous or stored != event_hash(previous, columns=columns, payload=payload.encode()):
            raise ChainBroken(f"event {columns[0]} was changed after it was written")
        number, previous = columns[0], stored
    end = connection.execute(select(COUNTER.c.number, COUNTER.c.hash)).one()
    if (end.number, end.hash) != (number, previous):
        raise ChainBroken(f"the log ends at event {number}, the counter at {end.number}")
    return number


def _events(connection: Connection) -> Iterator[Sequence[Any]]:
    after = 0
    while rows := connection.execute(
        select(EVENTS).where(EVENTS.c.number > after).order_by(EVENTS.c.number).limit(_PAGE)
    ).all():
        yield from rows
        after = rows[-1].number
