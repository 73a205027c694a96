"""An in-memory store that keeps the port's promises: versions, unique keys, gap-free numbers, one epoch."""

import asyncio
from collections.abc import Callable, Collection

from aliquot.service.ports import Batch, DuplicateKey, LoadedRows, NotLeader, SessionQuery, StaleVersion
from aliquot.service.subscriptions.sessions import session_of
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.requests import SessionFilter
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from service_events import event_of


class MemoryStore:
    """Implements the port `Store`. Every answer yields to other tasks, as real ones do."""

    def __init__(self) -> None:
        self.rows: dict[tuple[type, str], Record] = {}
        self.log: list[Event] = []
        self.epoch = 1

    async def open(self) -> LoadedRows:
        records = tuple(self.rows.values())
        return LoadedRows(
            revision=len(self.log), epoch=self.epoch, last_at_us=0, last_pass=0, records=records, ended_complete=True
        )

    async def close(self) -> None:
        return None

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        await asyncio.sleep(0)
        if batch.epoch is not None and batch.epoch != self.epoch:
            raise NotLeader(f"epoch {batch.epoch}")
        changed = dict(self.rows)
        for write in batch.writes:
            self._write(changed, write.record)
        self.rows = changed
        first = len(self.log) + 1
        events = tuple(
            event_of(
                write.record,
                write.kind,
                number=first + place,
                at_us=batch.at_us,
                actor=batch.actor,
                request_id=batch.request_id,
                epoch=self.epoch,
                pass_number=batch.pass_number,
            )
            for place, write in enumerate(batch.writes)
        )
        self.log.extend(events)
        return events

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        await asyncio.sleep(0)
        return tuple(self.log[number : number + limit])

    async def news_after(self, seen: int, *, limit: int) -> tuple[Event, ...]:
        return await self.events_after(seen, limit=limit)

    async def events_of(self, session_id: SessionId, *, after: int, limit: int) -> tuple[Event, ...]:
        await asyncio.sleep(0)
        return tuple(event for event in self.log[after:] if session_of(event) == session_id)[:limit]

    async def session_steps(
        self, session_id: SessionId, *, kinds: Collection[str], before: int | None, limit: int
    ) -> tuple[Event, ...]:
        await asyncio.sleep(0)
        mine = [event for event in self.log if event.entity_id == session_id and event.kind in kinds]
        return tuple(event for event in mine if before is None or event.number < before)[-limit:]

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        where = query.where
        known_terms = SessionFilter(states=where.states, owners=where.owners, run_id=where.run_id)
        if query != SessionQuery(where=known_terms, limit=query.limit):
            raise NotImplementedError("pages are tested over a real store")
        await asyncio.sleep(0)
        known = (row for row in self.rows.values() if isinstance(row, Session))
        wanted = [
            row
            for row in known
            if (not where.states or row.state in where.states)
            and (not where.owners or row.owner in where.owners)
            and where.run_id in (None, row.run_id)
        ]
        return tuple(sorted(wanted, key=lambda row: row.id, reverse=True)[: query.limit])

    async def count_sessions(self, query: SessionQuery) -> int:
        raise NotImplementedError("lists are tested over a real store")

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        await asyncio.sleep(0)
        session = self.rows.get((Session, session_id))
        if not isinstance(session, Session):
            return ()
        rows = self.rows.values()
        kernels = [row for row in rows if isinstance(row, Kernel) and row.session_id == session_id]
        newest = [kernel for kernel in kernels if kernel.attempt == session.attempt]
        names = {kernel.id for kernel in newest}
        return (session, *newest, *(row for row in rows if isinstance(row, Lease) and row.kernel_id in names))

    async def session_by_key(self, owner: UserId, key: str) -> Session | None:
        await asyncio.sleep(0)
        return self._find(lambda row: row.owner == owner and row.idempotency_key == key)

    def _write(self, rows: dict[tuple[type, str], Record], record: Record) -> None:
        before = rows.get((type(record), record.id))
        if record.version == 1:
            if before is not None:
                raise DuplicateKey(record.id)
            if isinstance(record, Session) and record.idempotency_key is not None:
                key = (record.owner, record.idempotency_key)
                if self._find(lambda row: (row.owner, row.idempotency_key) == key):
                    raise DuplicateKey(record.idempotency_key)
        elif before is None or before.version != record.version - 1:
            raise StaleVersion(record.id)
        rows[type(record), record.id] = record

    def _find(self, is_wanted: Callable[[Session], bool]) -> Session | None:
        return next((row for row in self.rows.values() if isinstance(row, Session) and is_wanted(row)), None)
