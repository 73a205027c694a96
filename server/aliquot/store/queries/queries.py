"""Record queries: one session with its kernels and leases, and events by number."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, literal, or_, select, union_all

from aliquot.store.hash_chain import check_seen
from aliquot.store.mapping import BY_ENTITY, KERNEL, LEASE, SESSION
from aliquot.store.tables import COUNTER, EVENTS, KERNELS, LEASES, SESSIONS
from aliquot_schema.events import Entity, Event, Record
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import Session

OF_SESSIONS: Final = (Entity.SESSION.value, Entity.KERNEL.value, Entity.LEASE.value)


def session_records(connection: Connection, session_id: SessionId) -> tuple[Record, ...]:
    """A session with the kernels, by rank, and leases of its newest attempt; empty if it does not exist."""
    row = connection.execute(select(SESSIONS).where(SESSIONS.c.id == session_id)).one_or_none()
    if row is None:
        return ()
    mine = and_(KERNELS.c.session_id == session_id, KERNELS.c.attempt == row.attempt)
    kernels = connection.execute(select(KERNELS).where(mine).order_by(KERNELS.c.rank))
    held = select(LEASES).where(LEASES.c.kernel_id.in_(select(KERNELS.c.id).where(mine)))
    leases = connection.execute(held.order_by(LEASES.c.id))
    return (
        SESSION.from_row(row),
        *(KERNEL.from_row(kernel) for kernel in kernels),
        *(LEASE.from_row(lease) for lease in leases),
    )


def session_by_key(connection: Connection, owner: UserId, key: str) -> Session | None:
    """The session created with this idempotency key."""
    stmt = select(SESSIONS).where(SESSIONS.c.owner == owner, SESSIONS.c.idempotency_key == key)
    row = connection.execute(stmt).one_or_none()
    return None if row is None else SESSION.from_row(row)


def events_after(connection: Connection, number: int, limit: int) -> tuple[Event, ...]:
    """Events numbered above `number`, in order."""
    stmt = select(EVENTS).where(EVENTS.c.number > number).order_by(EVENTS.c.number).limit(limit)
    return tuple(_event(row) for row in connection.execute(stmt))


def news_after(connection: Connection, seen: int, limit: int) -> tuple[Event, ...]:
    """Events after one that a server has read.

    Raises:
        StoreUnavailable: the database does not have that one.
    """
    found = events_after(connection, seen, limit)
    if not found:
        check_seen(connection.execute(select(COUNTER.c.number)).scalar_one(), seen=seen)
    return found


def events_of(connection: Connection, session_id: SessionId, *, after: int, limit: int) -> tuple[Event, ...]:
    """Events above `after` of a session, its kernels, and its leases without kernels, in order."""
    allocations = select(LEASES.c.id).where(LEASES.c.kernel_id.is_(None), LEASES.c.session_id == session_id)
    kernels = select(KERNELS.c.id).where(KERNELS.c.session_id == session_id)
    column = EVENTS.c
    mine = column.entity_id.in_(union_all(select(literal(session_id)), kernels, allocations))
    held = or_(
        column.entity != Entity.LEASE.value, column.entity_id.in_(allocations)
    )  # a kernel and its lease have the same id
    # Adding 0 keeps the planner from scanning the log from `after` on instead of using the index on ids.
    number = column.number + 0
    stmt = select(EVENTS).where(mine, column.entity.in_(OF_SESSIONS), held, number > after)
    return tuple(_event(row) for row in connection.execute(stmt.order_by(number).limit(limit)))


def session_steps(
    connection: Connection, session_id: SessionId, *, kinds: Collection[str], before: int | None, limit: int
) -> tuple[Event, ...]:
    """The newest events below `before` of a session itself, of these kinds; oldest first."""
    column = EVENTS.c
    mine = and_(column.entity_id == session_id, column.entity == Entity.SESSION.value, column.kind.in_(kinds))
    # Versions rise with event numbers, so this order reads the index from its end.
    stmt = select(EVENTS).where(mine).order_by(column.entity_id.desc(), column.entity_version.desc()).limit(limit)
    if before is not None:
        stmt = stmt.where(column.number < before)
    return tuple(_event(row) for row in reversed(connection.execute(stmt).all()))


def _event(row: Row[Any]) -> Event:
    return Event(
        number=row.number,
        at_us=row.at_us,
        kind=row.kind,
        entity=Entity(row.entity),
        entity_id=row.entity_id,
        entity_version=row.entity_version,
        actor=row.actor,
        request_id=row.request_id,
        epoch=row.epoch,
        pass_number=row.pass_number,
        record=BY_ENTITY[row.entity].from_payload(row.payload),
    )
