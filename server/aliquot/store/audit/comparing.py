"""Comparing: the table of holdings is held against the log that it is made of, a page at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select

from aliquot.store.audit.following import MARK
from aliquot.store.audit.holding_rows import end_of, rows_of
from aliquot.store.audit.tables import HOLDINGS, MARKS
from aliquot.store.chain import ChainBroken
from aliquot.store.mapping import LEASE, SESSION
from aliquot.store.seals import EVENTS_KIND, last_seal
from aliquot.store.stopping import PREEMPTING
from aliquot.store.tables import EVENTS
from aliquot_schema.events import Entity

_PAGE: Final = 500
_LATER: Final = EVENTS.alias("later")

Key = tuple[str, str, str]
"""Lease, device and slot."""


def compare_holdings(connection: Connection) -> int:
    """Compare everything that the table has taken in, and that is not archived; returns how many holdings these are.

    Raises:
        ChainBroken: at the first that is not what the log says.
    """
    mark = connection.execute(select(MARKS.c.number).where(MARKS.c.id == MARK)).scalar() or 0
    _check_grants(connection, mark)
    known = EVENTS.c.number <= mark
    count = sum(_compare_leases(connection, page) for page in _pages(connection, known, _is_newest(mark)))
    for page in _pages(connection, known, EVENTS.c.kind == PREEMPTING):
        for event in page:
            _compare_preemption(connection, event)
    _check_preempted(connection, mark)
    return count


def _check_grants(connection: Connection, mark: int) -> None:
    """Each begins with the event that granted it, but for those whose events were archived."""
    is_grant = and_(
        EVENTS.c.entity == Entity.LEASE.value,
        EVENTS.c.entity_id == HOLDINGS.c.lease_id,
        EVENTS.c.entity_version == 1,
        EVENTS.c.pass_number.is_not_distinct_from(HOLDINGS.c.pass_number),
    )
    told = exists().where(EVENTS.c.number == HOLDINGS.c.granted_event, is_grant)
    asked = select(HOLDINGS.c.lease_id, HOLDINGS.c.granted_event).where(
        _is_kept(connection), or_(~told, HOLDINGS.c.granted_event > mark)
    )
    if (row := connection.execute(asked.limit(1)).first()) is not None:
        raise ChainBroken(f"holdings: event {row.granted_event} has not granted {row.lease_id}")


def _check_preempted(connection: Connection, mark: int) -> None:
    """Nobody made room who was not asked to."""
    asked_for = exists().where(
        EVENTS.c.entity == Entity.SESSION.value,
        EVENTS.c.entity_id == HOLDINGS.c.session_id,
        EVENTS.c.kind == PREEMPTING,
        EVENTS.c.number <= mark,
    )
    invented = select(HOLDINGS.c.lease_id).where(HOLDINGS.c.preempted_us.is_not(None), _is_kept(connection), ~asked_for)
    if (row := connection.execute(invented.limit(1)).first()) is not None:
        raise ChainBroken(f"holdings: nobody asked {row.lease_id} to make room")


def _is_kept(connection: Connection) -> ColumnElement[bool]:
    """Whether the log still has the event that a holding begins with, and so all of what follows."""
    seal = last_seal(connection, EVENTS_KIND)
    return HOLDINGS.c.granted_event > (0 if seal is None else seal.last)


def _is_newest(mark: int) -> ColumnElement[bool]:
    """Whether an event is the last about its lease that the table has taken in."""
    later = exists().where(
        _LATER.c.entity_id == EVENTS.c.entity_id,
        _LATER.c.entity_version > EVENTS.c.entity_version,
        _LATER.c.number <= mark,
        _LATER.c.entity == EVENTS.c.entity,
    )
    return and_(EVENTS.c.entity == Entity.LEASE.value, ~later)


def _pages(connection: Connection, *wanted: ColumnElement[bool]) -> Iterator[Sequence[Any]]:
    asked = select(EVENTS.c.number, EVENTS.c.entity_id, EVENTS.c.pass_number, EVENTS.c.payload).where(*wanted)
    after = 0
    while page := connection.execute(asked.where(EVENTS.c.number > after).order_by(EVENTS.c.number).limit(_PAGE)).all():
        yield page
        after = page[-1].number


def _compare_leases(connection: Connection, events: Sequence[Any]) -> int:
    told: dict[Key, dict[str, Any]] = {}
    for event in events:
        lease = LEASE.from_payload(event.payload)
        end = end_of(lease, event=None if lease.released_us is None else event.number)
        for row in rows_of(lease, event=0, pass_number=None):
            del row["granted_event"], row["pass_number"]  # of the first event, which is another one
            told[_key(row)] = row | end
    asked = select(HOLDINGS).where(HOLDINGS.c.lease_id.in_([event.entity_id for event in events]))
    found = {_key(row): row for row in map(dict, connection.execute(asked).mappings())}
    for key in sorted(told.keys() | found.keys()):
        wanted = told.get(key, {})
        if key not in found or not wanted or not wanted.items() <= found[key].items():
            raise ChainBroken(f"holdings: {key[2]} of {key[1]} by {key[0]} is not what the log says")
    return len(told)


def _compare_preemption(connection: Connection, event: Any) -> None:
    """What the attempt held says so; the leases of an attempt are named by it, and a slash comes after a point."""
    session = SESSION.from_payload(event.payload)
    receipt, attempt = session.preemption, f"{session.id}.{session.attempt}"
    by = None if receipt is None else receipt.by_session or receipt.cause.value
    wanted = (None if receipt is None else receipt.at_us, by, event.pass_number)
    columns = (HOLDINGS.c.preempted_us, HOLDINGS.c.preempted_by, HOLDINGS.c.preempted_pass)
    asked = select(*columns).where(HOLDINGS.c.lease_id > f"{attempt}.", HOLDINGS.c.lease_id < f"{attempt}/")
    if any(tuple(row) != wanted for row in connection.execute(asked)):
        raise ChainBroken(f"holdings: {attempt} was asked to make room in another way than they say")


def _key(row: dict[str, Any]) -> Key:
    return row["lease_id"], row["device_id"], row["slot"]
