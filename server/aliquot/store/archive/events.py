"""Events in the archive: which may be sealed, verification of their hash chain while reading, and removal."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select

from aliquot.service.retention import HistoryDamaged
from aliquot.store.archive.sealing import EventRange, check_epoch, next_id
from aliquot.store.audit.holdings import MARK, MARKS
from aliquot.store.hash_chain import CHAIN_START, EVENTS_KIND, ChainBroken, check_link, last_seal
from aliquot.store.ledger.tables import PASSES
from aliquot.store.tables import COUNTER, EVENTS
from aliquot_schema.orchestration import CLOCK_ACTION

KEPT_MIN: Final = 10_000
"""Newest events kept regardless of age: followers and subscriptions resume from them after a disconnect."""
SEALED_PART: Final = 10
"""A file needs at least 1/10 of the kept events; otherwise each new event would cause a file of one."""
ROWS_MAX: Final = 500_000
"""Events per file."""
PAGE: Final = 500
REMOVED_ROWS: Final = 500
"""Events removed per transaction, for which commits wait."""


def sealable(connection: Connection, *, before_us: int, kept_min: int) -> EventRange | None:
    """The events since the last seal that are older than a time and that no replay and no projection needs."""
    seal = last_seal(connection, EVENTS_KIND)
    first = 1 if seal is None else seal.last + 1
    last = min(_first_needed(connection) - 1, first + ROWS_MAX - 1)
    last = min(last, connection.execute(select(COUNTER.c.number)).scalar_one() - kept_min)
    last = _last_older(connection, first=first, last=last, before_us=before_us)
    if last - first + 1 < max(kept_min // SEALED_PART, 1):
        return None
    head = connection.execute(select(EVENTS.c.hash).where(EVENTS.c.number == last)).scalar()
    if head is None:
        raise HistoryDamaged(f"event {last} is missing")
    return EventRange(
        id=next_id(connection, EVENTS_KIND), kind=EVENTS_KIND, first=first, last=last, rows=last - first + 1, head=head
    )


def page(connection: Connection, *, after: int, last: int) -> list[Row[Any]]:
    """The next events of a range."""
    stmt = select(EVENTS).where(EVENTS.c.number > after, EVENTS.c.number <= last)
    return list(connection.execute(stmt.order_by(EVENTS.c.number).limit(PAGE)).all())


def before_first(connection: Connection) -> bytes:
    """The hash before the next range."""
    seal = last_seal(connection, EVENTS_KIND)
    return CHAIN_START if seal is None else seal.head


def check_links(rows: Sequence[Sequence[Any]], *, number: int, previous: bytes) -> bytes:
    """Verify the hashes of a page; returns the last one.

    Raises:
        HistoryDamaged: a hash differs.
    """
    try:
        for row in rows:
            previous = check_link(row, number=number, previous=previous)
            number += 1
    except ChainBroken as broken:
        raise HistoryDamaged(str(broken)) from broken
    return previous


def remove(connection: Connection, *, epoch: int | None) -> int:
    """Remove up to `REMOVED_ROWS` sealed events, oldest first; returns how many."""
    with connection.begin():
        check_epoch(connection, epoch)
        seal = last_seal(connection, EVENTS_KIND)
        first = connection.execute(select(func.min(EVENTS.c.number))).scalar_one()
        if seal is None or first is None or first > seal.last:
            return 0
        last = min(seal.last, first + REMOVED_ROWS - 1)
        gone: int = connection.execute(delete(EVENTS).where(EVENTS.c.number <= last)).rowcount
        return gone


def _first_needed(connection: Connection) -> int:
    """First event that a projected table or the replay of a recorded pass still needs."""
    end = connection.execute(select(COUNTER.c.number)).scalar_one()
    followed = connection.execute(select(MARKS.c.number).where(MARKS.c.id == MARK)).scalar()
    replayed = connection.execute(select(func.min(PASSES.c.revision))).scalar_one()
    last: int = min(end, followed or 0, end if replayed is None else replayed)
    return last + 1


def _last_older(connection: Connection, *, first: int, last: int, before_us: int) -> int:
    """The last event of a range older than a time. Between two corrections of the clock, times are in order except for
    small differences between the clocks of servers. An event from a clock that was ahead is no younger than the next
    correction; one from a clock that was behind is no older than the events before it."""
    newest_us = connection.execute(select(COUNTER.c.at_us)).scalar_one()
    is_correction = EVENTS.c.entity_id == CLOCK_ACTION, EVENTS.c.number > first
    stmt = select(EVENTS.c.number, EVENTS.c.at_us).where(*is_correction)
    corrections = [(row.number, row.at_us) for row in connection.execute(stmt.order_by(EVENTS.c.number))]
    for number, at_us in [*corrections, (last + 1, None)]:
        end = min(number - 1, last)
        if end < first:
            break
        end_us = _at_us(connection, end)
        if (end_us if end_us <= newest_us or at_us is None else at_us) >= before_us:
            return _bisected(connection, first=first, last=end, before_us=before_us)
        first = end + 1
    return min(first - 1, last)


def _bisected(connection: Connection, *, first: int, last: int, before_us: int) -> int:
    while first <= last:
        middle = (first + last) // 2
        if _at_us(connection, middle) < before_us:
            first = middle + 1
        else:
            last = middle - 1
    return last


def _at_us(connection: Connection, number: int) -> int:
    at_us: int | None = connection.execute(select(EVENTS.c.at_us).where(EVENTS.c.number == number)).scalar()
    if at_us is None:
        raise HistoryDamaged(f"event {number} is missing")
    return at_us
