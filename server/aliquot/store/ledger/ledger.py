"""Ledger store: appends entries of scheduling passes and reads them back."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row, func, null, select, update

from aliquot.core.model.plan import BacklogPeak
from aliquot.service.ledger.entries import PassEntry, PassKey
from aliquot.service.ports import NotLeader
from aliquot.store.audit.holdings import follow
from aliquot.store.engines.database import Runner, upsert
from aliquot.store.hash_chain import CHAIN_START
from aliquot.store.ledger.encoding import LEDGER, EncodedEntry, entry_hash, pack, unpack
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES
from aliquot.store.mapping import SESSION, insert_rows
from aliquot.store.queries.queries import events_after
from aliquot.store.tables import COUNTER, EVENTS, SESSIONS
from aliquot_schema.events import Event
from aliquot_schema.ids import PoolId, SessionId
from aliquot_schema.sessions import Session


class DatabaseLedger:
    """Implements `LedgerStore`, `LedgerReader` and `HistoryReader`, which document the methods."""

    def __init__(self, database: Runner) -> None:
        self._database = database

    async def append(self, entries: Sequence[PassEntry]) -> None:
        packed = await asyncio.to_thread(lambda: [pack(entry) for entry in entries])
        await self._database.write(partial(append, packed=packed, epoch=entries[-1].epoch))

    async def backlogs(self) -> Mapping[PoolId, BacklogPeak]:
        return await self._database.read(backlogs)

    async def missing(self) -> int:
        return await self._database.read(missing)

    async def follow(self) -> bool:
        return await self._database.write(follow)

    async def last(self, count: int) -> tuple[PassKey, ...]:
        return await self._database.read(partial(last, count=count))

    async def checkpoint_before(self, number: int) -> PassKey | None:
        return await self._database.read(partial(checkpoint_before, number=number))

    async def first_at(self, at_us: int) -> PassKey | None:
        return await self._database.read(partial(first_at, at_us=at_us))

    async def checkpoint_after(self, number: int) -> PassKey | None:
        return await self._database.read(partial(checkpoint_after, number=number))

    async def ended_before(self, at_us: int, *, limit: int) -> tuple[Session, ...]:
        return await self._database.read(partial(ended_before, at_us=at_us, limit=limit))

    async def commands(self, names: Sequence[SessionId]) -> Mapping[SessionId, tuple[str, ...]]:
        return await self._database.read(partial(commands, names=names))

    async def entries(self, *, first: int, last: int, limit: int) -> tuple[PassEntry, ...]:
        return await self._database.read(partial(entries, first=first, last=last, limit=limit))

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        return await self._database.read(partial(events_after, number=number, limit=limit))


_NAMES_MAX: Final = 500
"""Ids in one query."""
_KEY = (PASSES.c.number, PASSES.c.revision, PASSES.c.checkpoint_hash.is_not(None).label("has_checkpoint"))


def last(connection: Connection, *, count: int) -> tuple[PassKey, ...]:
    """Keys of the newest entries, oldest first."""
    rows = connection.execute(select(*_KEY).order_by(PASSES.c.number.desc()).limit(count)).all()
    return tuple(_key(row) for row in reversed(rows))


def checkpoint_before(connection: Connection, *, number: int) -> PassKey | None:
    """Key of the newest entry with a checkpoint at or before this pass."""
    stmt = select(*_KEY).where(PASSES.c.number <= number, PASSES.c.checkpoint_hash.is_not(None))
    row = connection.execute(stmt.order_by(PASSES.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else _key(row)


def checkpoint_after(connection: Connection, *, number: int) -> PassKey | None:
    """Key of the oldest entry with a checkpoint after this pass."""
    stmt = select(*_KEY).where(PASSES.c.number > number, PASSES.c.checkpoint_hash.is_not(None))
    row = connection.execute(stmt.order_by(PASSES.c.number).limit(1)).one_or_none()
    return None if row is None else _key(row)


def first_at(connection: Connection, *, at_us: int) -> PassKey | None:
    """Key of the first entry at or after a time."""
    stmt = select(*_KEY).where(PASSES.c.now_us >= at_us).order_by(PASSES.c.number).limit(1)
    row = connection.execute(stmt).one_or_none()
    return None if row is None else _key(row)


def ended_before(connection: Connection, *, at_us: int, limit: int) -> tuple[Session, ...]:
    """The sessions that ended last before a time, by their end."""
    stmt = select(SESSIONS).where(SESSIONS.c.ended_us < at_us).order_by(SESSIONS.c.ended_us.desc()).limit(limit)
    return tuple(SESSION.from_row(row) for row in reversed(connection.execute(stmt).all()))


def commands(connection: Connection, *, names: Sequence[SessionId]) -> dict[SessionId, tuple[str, ...]]:
    """Commands of sessions."""
    found: dict[SessionId, tuple[str, ...]] = {}
    for first in range(0, len(names), _NAMES_MAX):
        stmt = select(SESSIONS).where(SESSIONS.c.id.in_(names[first : first + _NAMES_MAX]))
        sessions = [SESSION.from_row(row) for row in connection.execute(stmt)]
        found.update((session.id, session.spec.argv) for session in sessions)
    return found


def entries(connection: Connection, *, first: int, last: int, limit: int) -> tuple[PassEntry, ...]:
    """Entries from `first` to `last`, both included, in order; at most `limit`."""
    joined = PASSES.outerjoin(CHECKPOINTS, CHECKPOINTS.c.number == PASSES.c.number)
    stmt = select(PASSES, CHECKPOINTS.c.body.label("checkpoint")).select_from(joined)
    stmt = stmt.where(PASSES.c.number.between(first, last)).order_by(PASSES.c.number).limit(limit)
    return tuple(_entry(row) for row in connection.execute(stmt))


def newest(connection: Connection, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
    """The newest entries below a number, oldest first, without checkpoints."""
    stmt = select(PASSES, null().label("checkpoint"))
    if before is not None:
        stmt = stmt.where(PASSES.c.number < before)
    rows = connection.execute(stmt.order_by(PASSES.c.number.desc()).limit(limit)).all()
    return tuple(_entry(row) for row in reversed(rows))


def backlogs(connection: Connection) -> dict[PoolId, BacklogPeak]:
    """Peaks of the backlogs after the newest entry; empty without one, or if another release wrote it."""
    try:
        found = newest(connection, before=None, limit=1)
    except ValueError:
        return {}
    return {pool: peak for entry in found for pool, peak in (*entry.inputs.backlogs, *entry.plan.backlogs.items())}


def _key(row: Row[Any]) -> PassKey:
    return PassKey(number=row.number, revision=row.revision, has_checkpoint=bool(row.has_checkpoint))


def _entry(row: Row[Any]) -> PassEntry:
    *columns, body, _checkpoint_hash, _prev_hash, _hash, checkpoint = tuple(row)
    return unpack(columns, body=body, checkpoint=checkpoint)


def append(connection: Connection, packed: Sequence[EncodedEntry], *, epoch: int) -> None:
    """Append entries in one transaction, skipping those already written.

    Raises:
        NotLeader: the epoch is over.
    """
    with connection.begin():
        present = connection.execute(select(COUNTER.c.epoch).with_for_update(read=True)).scalar_one()
        if present != epoch:
            raise NotLeader(f"the entries were made in epoch {epoch}, and another server leads in epoch {present}")
        end = _end(connection)
        number, previous = end.last_number, end.last_hash
        fresh = [one for one in packed if one.columns[0] > number]
        rows = []
        for one in fresh:
            linked = entry_hash(previous, columns=one.columns, body=one.body, checkpoint_hash=one.checkpoint_hash)
            rows.append((*one.columns, one.body, one.checkpoint_hash, previous, linked))
            previous = linked
        if not fresh:
            return
        insert_rows(connection, PASSES, rows)
        checkpoints = [(one.columns[0], one.checkpoint) for one in fresh if one.checkpoint is not None]
        if checkpoints:
            insert_rows(connection, CHECKPOINTS, checkpoints)
        ends = update(CHAINS).where(CHAINS.c.id == LEDGER)
        connection.execute(ends.values(last_number=fresh[-1].columns[0], last_hash=previous))


def missing(connection: Connection) -> int:
    """Number of passes of earlier epochs that have events and come after the last entry."""
    newest = select(PASSES.c.number, PASSES.c.revision).order_by(PASSES.c.number.desc()).limit(1)
    last = connection.execute(newest).one_or_none()
    if last is None:
        return 0
    present = select(COUNTER.c.epoch).scalar_subquery()
    stmt = select(func.count(EVENTS.c.pass_number.distinct())).where(
        EVENTS.c.number > last.revision, EVENTS.c.pass_number > last.number, EVENTS.c.epoch < present
    )
    return connection.execute(stmt).scalar_one()


def _end(connection: Connection) -> Row[Any]:
    """The row with the end of the ledger, locked until the transaction ends; created before the first entry."""
    stmt = select(CHAINS).where(CHAINS.c.id == LEDGER).with_for_update()
    found = connection.execute(stmt).one_or_none()
    if found is None:
        fresh = {"id": LEDGER, "first_hash": CHAIN_START, "last_number": 0, "last_hash": CHAIN_START}
        # Another append may create it at the same time: that of a loop which was cancelled goes on.
        connection.execute(upsert(connection, CHAINS).values(fresh).on_conflict_do_nothing())
        found = connection.execute(stmt).one()
    return found
