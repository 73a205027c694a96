"""Accelerator holdings for usage reports: released and current holdings, read page by page."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, or_, select, tuple_

from aliquot.service.history.ports import HeldAmount
from aliquot.store.audit.holdings import HOLDINGS, MARK, MARKS, catch_up
from aliquot.store.engines.database import Runner
from aliquot.store.hash_chain import HOLDINGS_KIND, seals
from aliquot.store.tables import SESSIONS
from aliquot_schema.ids import LEASE_PREFIX, SESSION_PREFIX, AgentId, DeviceId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.sessions import DEFAULT_PROJECT

PAGE: Final = 1_000
_KEY: Final = (HOLDINGS.c.ended_us, HOLDINGS.c.lease_id, HOLDINGS.c.device_id, HOLDINGS.c.slot)
_IS_ACCELERATOR: Final = HOLDINGS.c.slot.contains(".", autoescape=True)


class DatabaseHoldings:
    """Implements `HoldingRecords`, which documents the methods."""

    def __init__(self, database: Runner) -> None:
        self._database = database

    async def between(self, since_us: int, until_us: int) -> AsyncIterator[tuple[HeldAmount, ...]]:
        await catch_up(self._database)
        held, last_event = await self._database.read(partial(_open, until_us=until_us))
        yield held
        after: tuple[Any, ...] = (since_us + 1, "", "", "")
        while True:
            page, last = await self._database.read(
                partial(_ended, after=after, until_us=until_us, last_event=last_event)
            )
            yield page
            if last is None:
                return
            after = last

    async def whole_since_us(self) -> int:
        return await self._database.read(_sealed)

    async def of_session(self, session_id: SessionId, until_us: int) -> tuple[HeldAmount, ...]:
        await catch_up(self._database)
        return await self._database.read(partial(_of_session, session_id=session_id, until_us=until_us))

    async def spans_of_session(self, session_id: SessionId, until_us: int) -> tuple[tuple[int, int], ...]:
        await catch_up(self._database)
        return await self._database.read(partial(_spans, session_id=session_id, until_us=until_us))


def _open(connection: Connection, *, until_us: int) -> tuple[tuple[HeldAmount, ...], int]:
    """Current holdings, and the number of the last event they include."""
    held = _holdings_stmt(until_us).where(HOLDINGS.c.ended_us.is_(None), HOLDINGS.c.from_us < until_us)
    return _fetch(connection, held), connection.execute(select(MARKS.c.number).where(MARKS.c.id == MARK)).scalar_one()


def _ended(
    connection: Connection, *, after: tuple[Any, ...], until_us: int, last_event: int
) -> tuple[tuple[HeldAmount, ...], tuple[Any, ...] | None]:
    """The next page of released holdings, and the cursor after it; None at the end.

    Args:
        last_event: later releases are ignored: `_open` has those holdings.
    """
    stmt = _holdings_stmt(until_us).add_columns(*(column.label(f"key_{place}") for place, column in enumerate(_KEY)))
    stmt = stmt.where(tuple_(*_KEY) > tuple_(*map(literal, after)), HOLDINGS.c.ended_us > after[0] - 1)
    rows = connection.execute(stmt.where(HOLDINGS.c.ended_event <= last_event).order_by(*_KEY).limit(PAGE)).all()
    page = tuple(_held(row) for row in rows if row.from_us < until_us)
    return page, tuple(rows[-1][-len(_KEY) :]) if len(rows) == PAGE else None


def _sealed(connection: Connection) -> int:
    """Time up to which holdings were archived or removed; 0 if none were."""
    return max((seal.last for seal in seals(connection, HOLDINGS_KIND) if seal.rows), default=0)


def _of_session(connection: Connection, *, session_id: SessionId, until_us: int) -> tuple[HeldAmount, ...]:
    stmt = _holdings_stmt(until_us).where(_is_of(session_id))
    return _fetch(connection, stmt.order_by(HOLDINGS.c.granted_event, HOLDINGS.c.slot, HOLDINGS.c.device_id))


def _spans(connection: Connection, *, session_id: SessionId, until_us: int) -> tuple[tuple[int, int], ...]:
    stmt = select(HOLDINGS.c.from_us, func.coalesce(HOLDINGS.c.ended_us, until_us)).where(_is_of(session_id))
    return tuple((from_us, ended_us) for from_us, ended_us in connection.execute(stmt.distinct()))


def _is_of(session_id: SessionId) -> ColumnElement[bool]:
    """Holdings of a session, found by the start of their lease ids, which is the session's id."""
    allocation = f"{LEASE_PREFIX}{session_id.removeprefix(SESSION_PREFIX)}"
    own = or_(_has_prefix(f"{session_id}."), _has_prefix(f"{allocation}."))
    return and_(own, HOLDINGS.c.session_id == session_id)


def _has_prefix(prefix: str) -> ColumnElement[bool]:
    """A prefix condition as a range, which uses the primary key."""
    return and_(HOLDINGS.c.lease_id >= prefix, HOLDINGS.c.lease_id < prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _holdings_stmt(until_us: int) -> Select[Any]:
    columns = (HOLDINGS.c[name] for name in ("owner", "agent_id", "device_id", "slot", "amount", "from_us"))
    stmt = select(
        *columns,
        func.coalesce(HOLDINGS.c.ended_us, until_us).label("ended_us"),
        func.coalesce(SESSIONS.c.project, DEFAULT_PROJECT).label("project"),
    )
    return stmt.select_from(HOLDINGS.outerjoin(SESSIONS, SESSIONS.c.id == HOLDINGS.c.session_id)).where(_IS_ACCELERATOR)


def _fetch(connection: Connection, stmt: Select[Any]) -> tuple[HeldAmount, ...]:
    return tuple(map(_held, connection.execute(stmt)))


def _held(row: Any) -> HeldAmount:
    return HeldAmount(
        owner=UserId(row.owner),
        project=ProjectId(row.project),
        agent_id=AgentId(row.agent_id),
        device_id=DeviceId(row.device_id),
        slot=SlotName(row.slot),
        amount=row.amount,
        from_us=row.from_us,
        ended_us=row.ended_us,
    )
