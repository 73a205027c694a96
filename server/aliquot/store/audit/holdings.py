"""Holdings: which lease held a device and when; a table projected from the lease events of the log.

Projection runs after commits, not within them, and the table can be rebuilt from the log. One row is one slot of one
device held by one lease. Times are microseconds UTC.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, Index, Table, bindparam, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from aliquot.service.audit.audit import Holding
from aliquot.store.columns import METADATA, TableRow, number_column, text_column, text_key
from aliquot.store.commit import PREEMPTING
from aliquot.store.engines.database import Runner
from aliquot.store.mapping import LEASE, SESSION
from aliquot.store.tables import COUNTER, EVENTS
from aliquot_schema.events import Entity
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session


def holding_rows(lease: Lease, *, event: int, pass_number: int | None) -> Iterator[dict[str, Any]]:
    """The rows of a lease, one per slot and device.

    Args:
        event: number of the event that granted the lease.
        pass_number: the scheduling pass that granted it.
    """
    for slot, amounts in lease.spec.items():
        for device_id, amount in amounts.items():
            yield {
                "lease_id": lease.id,
                "device_id": device_id,
                "slot": slot,
                "kind": lease.kind.value,
                "agent_id": lease.agent_id,
                "session_id": lease.session_id,
                "owner": lease.owner,
                "amount": amount,
                "from_us": lease.granted_us,
                "pass_number": pass_number,
                "granted_event": event,
            }


def end_columns(lease: Lease, *, event: int | None) -> dict[str, Any]:
    """The columns that change between grant and release.

    Args:
        event: number of the event that released the lease; None = still held.
    """
    return {
        "until_us": lease.until_us,
        "ended_us": lease.released_us,
        "evidence": None if lease.evidence is None else lease.evidence.value,
        "ended_event": event,
    }


class HoldingRow(TableRow, table=True):
    """An amount of one slot of one device, held by one lease from grant to release."""

    __tablename__ = "holdings"
    __table_args__ = (
        Index("ix_holdings_device", "device_id", "from_us"),
        Index("ix_holdings_ended", "ended_us", "lease_id", "device_id", "slot"),
    )

    lease_id: str = text_key()
    device_id: str = text_key()
    slot: str = text_key()
    kind: str = text_column()
    agent_id: str = text_column()
    session_id: str | None = text_column()
    owner: str = text_column()
    amount: int = number_column()
    from_us: int = number_column()
    until_us: int | None = number_column()
    """Planned end; a renewal moves it."""
    ended_us: int | None = number_column()
    """Time of release; null = still held."""
    evidence: str | None = text_column()
    pass_number: int | None = number_column()
    """The pass that granted it."""
    granted_event: int = number_column()
    ended_event: int | None = number_column()
    preempted_us: int | None = number_column()
    """Time of the preemption."""
    preempted_by: str | None = text_column()
    """The preempting session, or the cause."""
    preempted_pass: int | None = number_column()


class MarkRow(TableRow, table=True):
    """The last event that a projected table contains."""

    __tablename__ = "marks"

    id: str = text_key()
    number: int = number_column()


HOLDINGS: Final[Table] = METADATA.tables["holdings"]
MARKS: Final[Table] = METADATA.tables["marks"]


def held_at(connection: Connection, *, device_id: str, at_us: int) -> tuple[Holding, ...]:
    """Holdings of a device at a moment, in the order of the grants."""
    return held_over(connection, device_ids=[device_id], first_us=at_us, last_us=at_us)


def held_over(
    connection: Connection,
    *,
    device_ids: Sequence[str],
    first_us: int,
    last_us: int | None,
    before: int | None = None,
    limit: int | None = None,
) -> tuple[Holding, ...]:
    """The newest holdings of devices at any time between two moments, in the order of the grants.

    Args:
        last_us: the second moment; None = until now. Both are included.
        before: only grants of events with lower numbers.
        limit: grants, at most; a grant is one slot of a device.
    """
    wanted = [HOLDINGS.c.device_id.in_(device_ids), or_(HOLDINGS.c.ended_us.is_(None), HOLDINGS.c.ended_us > first_us)]
    wanted += [] if last_us is None else [HOLDINGS.c.from_us <= last_us]
    wanted += [] if before is None else [HOLDINGS.c.granted_event < before]
    stmt = select(HOLDINGS).where(*wanted).order_by(HOLDINGS.c.granted_event.desc(), HOLDINGS.c.slot.desc())
    return tuple(Holding(**row) for row in connection.execute(stmt.limit(limit)).mappings())[::-1]


MARK: Final = "holdings"
PAGE: Final = 2000
"""Events projected by one transaction."""

_CHANGE: Final = (
    update(HOLDINGS)
    .where(HOLDINGS.c.lease_id == bindparam("of_lease"))
    .values(
        from_us=bindparam("begun"),
        until_us=bindparam("until"),
        ended_us=bindparam("ended"),
        evidence=bindparam("by"),
        ended_event=bindparam("event"),
    )
)


def follow(connection: Connection) -> bool:
    """Project the next page of the log; returns whether there may be more."""
    with connection.begin():
        mark = _locked_mark(connection)
        end = connection.execute(select(COUNTER.c.number)).scalar_one()
        if end == mark:
            return False
        stmt = select(EVENTS.c.number, EVENTS.c.pass_number, EVENTS.c.kind, EVENTS.c.payload)
        is_relevant = or_(EVENTS.c.entity == Entity.LEASE.value, EVENTS.c.kind == PREEMPTING)
        stmt = stmt.where(EVENTS.c.number.between(mark + 1, end), is_relevant)
        rows = connection.execute(stmt.order_by(EVENTS.c.number).limit(PAGE)).all()
        _project(connection, [row for row in rows if row.kind != PREEMPTING])
        for row in rows:
            if row.kind == PREEMPTING:
                _project_preemption(connection, SESSION.from_payload(row.payload), pass_number=row.pass_number)
        is_full = len(rows) == PAGE
        last = rows[-1].number if is_full else end
        connection.execute(update(MARKS).where(MARKS.c.id == MARK).values(number=last))
        return is_full


def follow_all(connection: Connection) -> None:
    """Project the rest of the log."""
    while follow(connection):
        continue


async def catch_up(database: Runner) -> None:
    """Project the rest of the log, one page per write, so that commits wait for one page at most."""
    while await database.write(follow):
        continue


def _locked_mark(connection: Connection) -> int:
    """Number of the last projected event, locked until the transaction ends."""
    stmt = select(MARKS.c.number).where(MARKS.c.id == MARK).with_for_update()
    mark: int | None = connection.execute(stmt).scalar()
    if mark is None:
        with suppress(IntegrityError), connection.begin_nested():  # another process may insert it at the same time
            connection.execute(insert(MARKS).values(id=MARK, number=0))
        mark = connection.execute(stmt).scalar_one()
    return mark


def _project(connection: Connection, rows: Sequence[Any]) -> None:
    granted: dict[str, list[dict[str, Any]]] = {}
    changed: dict[str, dict[str, Any]] = {}
    for row in rows:
        lease = LEASE.from_payload(row.payload)
        ended_event = None if lease.released_us is None else row.number
        if lease.version == 1:
            granted[lease.id] = list(holding_rows(lease, event=row.number, pass_number=row.pass_number))
        for holding in granted.get(lease.id, ()):
            holding |= {"from_us": lease.granted_us, **end_columns(lease, event=ended_event)}
        if lease.id not in granted:
            end = end_columns(lease, event=ended_event)
            changed[lease.id] = {
                "of_lease": lease.id,
                "begun": lease.granted_us,
                "until": end["until_us"],
                "ended": end["ended_us"],
                "by": end["evidence"],
                "event": ended_event,
            }
    fresh = [holding for holdings in granted.values() for holding in holdings]
    if fresh:
        connection.execute(insert(HOLDINGS), fresh)
    if changed:
        connection.execute(_CHANGE, list(changed.values()))


def _project_preemption(connection: Connection, session: Session, *, pass_number: int | None) -> None:
    """Record a preemption. Lease ids of an attempt start with `<session>.<attempt>.`; `/` follows `.`. A range uses the
    primary key, where LIKE would read the whole table."""
    receipt = session.preemption
    assert receipt is not None, f"{session.id} is preempted without a receipt"
    attempt = f"{session.id}.{session.attempt}"
    connection.execute(
        update(HOLDINGS)
        .where(HOLDINGS.c.lease_id > f"{attempt}.", HOLDINGS.c.lease_id < f"{attempt}/")
        .values(
            preempted_us=receipt.at_us,
            preempted_by=receipt.by_session or receipt.cause.value,
            preempted_pass=pass_number,
        )
    )
