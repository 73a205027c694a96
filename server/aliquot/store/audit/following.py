"""Following: leases of the event log into the table of holdings, behind the log's back."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from aliquot.store.audit.holding_rows import end_of, rows_of
from aliquot.store.audit.tables import HOLDINGS, MARKS
from aliquot.store.mapping import LEASE, SESSION
from aliquot.store.runner import Runner
from aliquot.store.stopping import PREEMPTING
from aliquot.store.tables import COUNTER, EVENTS
from aliquot_schema.events import Entity
from aliquot_schema.sessions import Session

MARK: Final = "holdings"
PAGE: Final = 2000
"""Events taken in by one transaction."""

_RENEWED: Final = (
    update(HOLDINGS)
    .where(HOLDINGS.c.lease_id == bindparam("of_lease"))
    .values(
        until_us=bindparam("until"),
        ended_us=bindparam("ended"),
        evidence=bindparam("by"),
        ended_event=bindparam("event"),
    )
)


def follow(connection: Connection) -> bool:
    """Take in the next page of the log; returns whether there may be more."""
    with connection.begin():
        mark = _locked_mark(connection)
        end = connection.execute(select(COUNTER.c.number)).scalar_one()
        if end == mark:
            return False
        asked = select(EVENTS.c.number, EVENTS.c.pass_number, EVENTS.c.kind, EVENTS.c.payload)
        told = or_(EVENTS.c.entity == Entity.LEASE.value, EVENTS.c.kind == PREEMPTING)
        asked = asked.where(EVENTS.c.number.between(mark + 1, end), told)
        rows = connection.execute(asked.order_by(EVENTS.c.number).limit(PAGE)).all()
        _take_in(connection, [row for row in rows if row.kind != PREEMPTING])
        for row in rows:
            if row.kind == PREEMPTING:
                _preempt(connection, SESSION.from_payload(row.payload), pass_number=row.pass_number)
        is_full = len(rows) == PAGE
        last = rows[-1].number if is_full else end
        connection.execute(update(MARKS).where(MARKS.c.id == MARK).values(number=last))
        return is_full


def follow_all(connection: Connection) -> None:
    """Take in the whole log."""
    while follow(connection):
        continue


async def follow_to_the_end(database: Runner) -> None:
    """Take in the whole log, one page a turn, so that commits wait for one at most."""
    while await database.write(follow):
        continue


def _locked_mark(connection: Connection) -> int:
    """The number of the last event that was taken in; nobody else takes any in until the transaction ends."""
    asked = select(MARKS.c.number).where(MARKS.c.id == MARK).with_for_update()
    mark: int | None = connection.execute(asked).scalar()
    if mark is None:
        with suppress(IntegrityError), connection.begin_nested():  # somebody else may begin at the same moment
            connection.execute(insert(MARKS).values(id=MARK, number=0))
        mark = connection.execute(asked).scalar_one()
    return mark


def _take_in(connection: Connection, rows: Sequence[Any]) -> None:
    granted: dict[str, list[dict[str, Any]]] = {}
    changed: dict[str, dict[str, Any]] = {}
    for row in rows:
        lease = LEASE.from_payload(row.payload)
        ended_event = None if lease.released_us is None else row.number
        if lease.version == 1:
            granted[lease.id] = list(rows_of(lease, event=row.number, pass_number=row.pass_number))
        for holding in granted.get(lease.id, ()):
            holding |= end_of(lease, event=ended_event)
        if lease.id not in granted:
            end = end_of(lease, event=ended_event)
            changed[lease.id] = {
                "of_lease": lease.id,
                "until": end["until_us"],
                "ended": end["ended_us"],
                "by": end["evidence"],
                "event": ended_event,
            }
    fresh = [holding for holdings in granted.values() for holding in holdings]
    if fresh:
        connection.execute(insert(HOLDINGS), fresh)
    if changed:
        connection.execute(_RENEWED, list(changed.values()))


def _preempt(connection: Connection, session: Session, *, pass_number: int | None) -> None:
    """The leases of an attempt are named by it."""
    receipt = session.preemption
    assert receipt is not None, f"{session.id} makes room, and nobody knows why"
    of_attempt = HOLDINGS.c.lease_id.startswith(f"{session.id}.{session.attempt}.", autoescape=True)
    connection.execute(
        update(HOLDINGS)
        .where(of_attempt)
        .values(
            preempted_us=receipt.at_us,
            preempted_by=receipt.by_session or receipt.cause.value,
            preempted_pass=pass_number,
        )
    )
