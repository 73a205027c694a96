"""Holdings verification: compares the holdings table with the event log it is derived from, page by page."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select

from aliquot.store.audit.holdings import HOLDINGS, MARK, MARKS, end_columns, holding_rows
from aliquot.store.commit import PREEMPTING
from aliquot.store.hash_chain import EVENTS_KIND, ChainBroken, last_seal
from aliquot.store.mapping import LEASE, SESSION
from aliquot.store.tables import EVENTS
from aliquot_schema.events import Entity

_PAGE: Final = 500
_LATER: Final = EVENTS.alias("later")

Key = tuple[str, str, str]
"""Lease id, device id and slot name."""


def compare_holdings(connection: Connection) -> int:
    """Compare all holdings that the table has and that are not archived; returns their number.

    Raises:
        ChainBroken: at the first holding that differs from the log.
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
    """Check that each holding names the event that granted it, unless that event was archived."""
    is_grant = and_(
        EVENTS.c.entity == Entity.LEASE.value,
        EVENTS.c.entity_id == HOLDINGS.c.lease_id,
        EVENTS.c.entity_version == 1,
        EVENTS.c.pass_number.is_not_distinct_from(HOLDINGS.c.pass_number),
    )
    is_granted = exists().where(EVENTS.c.number == HOLDINGS.c.granted_event, is_grant)
    stmt = select(HOLDINGS.c.lease_id, HOLDINGS.c.granted_event).where(
        _is_kept(connection), or_(~is_granted, HOLDINGS.c.granted_event > mark)
    )
    if (row := connection.execute(stmt.limit(1)).first()) is not None:
        raise ChainBroken(f"holdings: event {row.granted_event} has not granted {row.lease_id}")


def _check_preempted(connection: Connection, mark: int) -> None:
    """Check that every preempted holding has its preemption event."""
    is_recorded = exists().where(
        EVENTS.c.entity == Entity.SESSION.value,
        EVENTS.c.entity_id == HOLDINGS.c.session_id,
        EVENTS.c.kind == PREEMPTING,
        EVENTS.c.number <= mark,
    )
    stmt = select(HOLDINGS.c.lease_id).where(HOLDINGS.c.preempted_us.is_not(None), _is_kept(connection), ~is_recorded)
    if (row := connection.execute(stmt.limit(1)).first()) is not None:
        raise ChainBroken(f"holdings: no event preempts {row.lease_id}")


def _is_kept(connection: Connection) -> ColumnElement[bool]:
    """Whether the log still has the event that granted a holding, and so all later ones."""
    seal = last_seal(connection, EVENTS_KIND)
    return HOLDINGS.c.granted_event > (0 if seal is None else seal.last)


def _is_newest(mark: int) -> ColumnElement[bool]:
    """Whether an event is the last one of its lease that the table has."""
    later = exists().where(
        _LATER.c.entity_id == EVENTS.c.entity_id,
        _LATER.c.entity_version > EVENTS.c.entity_version,
        _LATER.c.number <= mark,
        _LATER.c.entity == EVENTS.c.entity,
    )
    return and_(EVENTS.c.entity == Entity.LEASE.value, ~later)


def _pages(connection: Connection, *wanted: ColumnElement[bool]) -> Iterator[Sequence[Any]]:
    stmt = select(EVENTS.c.number, EVENTS.c.entity_id, EVENTS.c.pass_number, EVENTS.c.payload).where(*wanted)
    after = 0
    while page := connection.execute(stmt.where(EVENTS.c.number > after).order_by(EVENTS.c.number).limit(_PAGE)).all():
        yield page
        after = page[-1].number


def _compare_leases(connection: Connection, events: Sequence[Any]) -> int:
    expected: dict[Key, dict[str, Any]] = {}
    for event in events:
        lease = LEASE.from_payload(event.payload)
        end = end_columns(lease, event=None if lease.released_us is None else event.number)
        for row in holding_rows(lease, event=0, pass_number=None):
            del row["granted_event"], row["pass_number"]  # these come from the lease's first event
            expected[_key(row)] = row | end
    stmt = select(HOLDINGS).where(HOLDINGS.c.lease_id.in_([event.entity_id for event in events]))
    found = {_key(row): row for row in map(dict, connection.execute(stmt).mappings())}
    for key in sorted(expected.keys() | found.keys()):
        wanted = expected.get(key, {})
        if key not in found or not wanted or not wanted.items() <= found[key].items():
            raise ChainBroken(f"holdings: {key[2]} of {key[1]} by {key[0]} differs from the log")
    return len(expected)


def _compare_preemption(connection: Connection, event: Any) -> None:
    """Check the holdings of a preempted attempt. Its lease ids start with `<session>.<attempt>.`; `/` follows `.`."""
    session = SESSION.from_payload(event.payload)
    receipt, attempt = session.preemption, f"{session.id}.{session.attempt}"
    by = None if receipt is None else receipt.by_session or receipt.cause.value
    wanted = (None if receipt is None else receipt.at_us, by, event.pass_number)
    columns = (HOLDINGS.c.preempted_us, HOLDINGS.c.preempted_by, HOLDINGS.c.preempted_pass)
    stmt = select(*columns).where(HOLDINGS.c.lease_id > f"{attempt}.", HOLDINGS.c.lease_id < f"{attempt}/")
    if any(tuple(row) != wanted for row in connection.execute(stmt)):
        raise ChainBroken(f"holdings: the preemption of {attempt} differs from the log")


def _key(row: dict[str, Any]) -> Key:
    return row["lease_id"], row["device_id"], row["slot"]
