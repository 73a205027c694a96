"""Old events: which may be sealed, their chain walked while they are read, and their removal."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select

from aliquot.service.retention.ports import HistoryDamaged
from aliquot.store.archive.sealing import Stretch, check_epoch, next_id
from aliquot.store.audit.following import MARK
from aliquot.store.audit.tables import MARKS
from aliquot.store.chain import CHAIN_START, ChainBroken, check_link
from aliquot.store.ledger.tables import PASSES
from aliquot.store.seals import EVENTS_KIND, last_seal
from aliquot.store.tables import COUNTER, EVENTS

KEPT_MIN: Final = 10_000
"""The newest events stay, however old: followers and subscriptions that were away go on from them."""
SEALED_PART: Final = 10
"""Where the newest stay however old they are, each new event would push one out: fewer than a tenth wait for more."""
ROWS_MAX: Final = 500_000
"""In one file."""
PAGE: Final = 500
REMOVED_AT_ONCE: Final = 500
"""Commits wait for so many at most."""


def sealable(connection: Connection, *, before_us: int, kept_min: int) -> Stretch | None:
    """Events since the last seal that are older, and that no replay and no table needs any more."""
    seal = last_seal(connection, EVENTS_KIND)
    first = 1 if seal is None else seal.last + 1
    last = min(_unneeded(connection) - 1, first + ROWS_MAX - 1)
    last = min(last, connection.execute(select(COUNTER.c.number)).scalar_one() - kept_min)
    last = _older(connection, first=first, last=last, before_us=before_us)
    if last - first + 1 < max(kept_min // SEALED_PART, 1):
        return None
    head = connection.execute(select(EVENTS.c.hash).where(EVENTS.c.number == last)).scalar()
    if head is None:
        raise HistoryDamaged(f"event {last} is missing")
    return Stretch(
        id=next_id(connection, EVENTS_KIND), kind=EVENTS_KIND, first=first, last=last, rows=last - first + 1, head=head
    )


def page(connection: Connection, *, after: int, last: int) -> list[Row[Any]]:
    """The next events of a stretch."""
    asked = select(EVENTS).where(EVENTS.c.number > after, EVENTS.c.number <= last)
    return list(connection.execute(asked.order_by(EVENTS.c.number).limit(PAGE)).all())


def before_first(connection: Connection) -> bytes:
    """The hash that the next stretch goes on from."""
    seal = last_seal(connection, EVENTS_KIND)
    return CHAIN_START if seal is None else seal.head


def walked(rows: Sequence[Sequence[Any]], *, number: int, previous: bytes) -> bytes:
    """Check the links of a page; returns the last one's hash.

    Raises:
        HistoryDamaged: one does not fit.
    """
    try:
        for row in rows:
            previous = check_link(row, number=number, previous=previous)
            number += 1
    except ChainBroken as broken:
        raise HistoryDamaged(str(broken)) from broken
    return previous


def remove(connection: Connection, *, epoch: int | None) -> int:
    """Remove a few events that are sealed, the oldest first."""
    with connection.begin():
        check_epoch(connection, epoch)
        seal = last_seal(connection, EVENTS_KIND)
        first = connection.execute(select(func.min(EVENTS.c.number))).scalar_one()
        if seal is None or first is None or first > seal.last:
            return 0
        last = min(seal.last, first + REMOVED_AT_ONCE - 1)
        gone: int = connection.execute(delete(EVENTS).where(EVENTS.c.number <= last)).rowcount
        return gone


def _unneeded(connection: Connection) -> int:
    """Events below this number are in every table made of the log, and below every pass that can be replayed."""
    end = connection.execute(select(COUNTER.c.number)).scalar_one()
    followed = connection.execute(select(MARKS.c.number).where(MARKS.c.id == MARK)).scalar()
    replayed = connection.execute(select(func.min(PASSES.c.revision))).scalar_one()
    last: int = min(end, followed or 0, end if replayed is None else replayed)
    return last + 1


def _older(connection: Connection, *, first: int, last: int, before_us: int) -> int:
    """The last event of a stretch that is older, by bisection: events are dated in order, but for servers whose clocks
    differ by a little."""
    while first <= last:
        middle = (first + last) // 2
        at_us = connection.execute(select(EVENTS.c.at_us).where(EVENTS.c.number == middle)).scalar()
        if at_us is None:
            raise HistoryDamaged(f"event {middle} is missing")
        if at_us < before_us:
            first = middle + 1
        else:
            last = middle - 1
    return last
