"""Commits: a group of batches in one transaction, first rows, then event numbers from the counter, then events.

`commit_group` is a plain function of a connection, so that a writer thread, an asyncpg connection and a simulation can
all run it. While the scheduler is stopped, grants and preemptions of passes that began before are rejected.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, Table, Text, any_, bindparam, select

from aliquot.service.ports import Batch, DuplicateKey, NotLeader, RowWrite, StaleVersion, StoreUnavailable
from aliquot.store.engines.database import is_conflict, rejection, unavailability
from aliquot.store.hash_chain import check_seen, event_hash
from aliquot.store.mapping import (
    MAPPINGS,
    RecordMapping,
    insert_rows,
    replace_rows,
    reserve_numbers,
    to_json,
    write_end,
)
from aliquot.store.tables import EVENTS, ORCHESTRATION
from aliquot_schema.events import EVENT_FORMAT, Event, Record
from aliquot_schema.orchestration import CLOCK_CORRECTED, OrchestratorState
from aliquot_schema.resources.leases import Lease

PREEMPTING: Final = "session.preempting"
_UNCONFIRMED = (
    "the change may have been made all the same: look before you repeat it, or repeat it with the same idempotency key"
)
_STOPPED = select(ORCHESTRATION.c.changed_us).where(ORCHESTRATION.c.state == OrchestratorState.STOPPED.value)


def check_not_stopped(connection: Connection, batches: Sequence[Batch]) -> None:
    """Reject new grants and preemptions while scheduling is stopped.

    Call it with the counter locked: earlier commits of all servers are visible then.

    Raises:
        StaleVersion: a batch has a grant or a preemption; its pass must be repeated.
    """
    passes = (batch for batch in batches if batch.pass_number is not None)
    is_new = any(_is_new(write) for batch in passes for write in batch.writes)
    if is_new and connection.execute(_STOPPED).first() is not None:
        raise StaleVersion("scheduling was stopped while the pass ran")


def _is_new(write: RowWrite) -> bool:
    return write.kind == PREEMPTING or (isinstance(write.record, Lease) and write.record.version == 1)


Outcome = tuple[Event, ...] | Exception
"""The events of a batch, or the error for which nothing of it was written."""

_TRIES: Final = 5
"""Attempts to commit a group that conflicts with another server's transaction."""


@dataclass(slots=True)
class _Change:
    """The combined effect of a group on one row: replace `from_version` (0 = insert) by `record`."""

    from_version: int
    record: Record


def commit_group(connection: Connection, batches: Sequence[Batch]) -> list[Outcome]:
    """Commit batches in one transaction, in order; one that fails does not fail the others.

    All are tried together first, with one statement per table. If that fails, each is tried with its own savepoint.
    Returns:
        One outcome per batch.
    Raises:
        StoreUnavailable: the database failed; the batches may or may not have been written.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return _commit(connection, batches)
        except Exception as error:
            if is_conflict(error) and tries_left:
                continue
            if (unavailable := unavailability(error)) and unavailable is not error:
                raise unavailable from error
            raise
    raise AssertionError("the last try returns or raises")


def write_batches(connection: Connection, batches: Sequence[Batch]) -> list[tuple[Event, ...]]:
    """Write batches in the open transaction, which locks the log for other writers until it ends.

    Raises:
        StaleVersion, DuplicateKey, NotLeader, or the database's error: the transaction must be rolled back.
    """
    changes = _changes([write for batch in batches for write in batch.writes])
    for kind, mapping in MAPPINGS.items():
        if mine := changes.get(kind):
            _write_rows(connection, mapping, mine)
    return _append_events(connection, batches)


@contextmanager
def _committing(connection: Connection) -> Iterator[None]:
    """A transaction with changes.

    Raises:
        StoreUnavailable: PostgreSQL was lost during its COMMIT; the message says that they may have been made.
    """
    commits = False
    try:
        with connection.begin():
            yield
            commits = True
    except Exception as error:
        lost = unavailability(error) if commits and connection.dialect.name == "postgresql" else None
        if lost is None:
            raise
        raise StoreUnavailable(f"{lost}; {_UNCONFIRMED}") from error


def _commit(connection: Connection, batches: Sequence[Batch]) -> list[Outcome]:
    try:
        with _committing(connection):
            return list(write_batches(connection, batches))
    except Exception as error:
        if is_conflict(error) or unavailability(error):
            raise
        if len(batches) == 1:
            return [rejection(error)]
    with _committing(connection):
        return [_write_alone(connection, batch) for batch in batches]


def _write_alone(connection: Connection, batch: Batch) -> Outcome:
    try:
        with connection.begin_nested():
            return write_batches(connection, [batch])[0]
    except Exception as error:
        if is_conflict(error) or unavailability(error):
            raise
        return rejection(error)


def _changes(writes: Sequence[RowWrite]) -> dict[type[Record], list[_Change]]:
    """Reduce the writes to one change per row, by record type.

    Raises:
        StaleVersion, DuplicateKey: two writes of one row do not follow each other.
    """
    changes: dict[tuple[type[Record], str], _Change] = {}
    for write in writes:
        record = write.record
        key = (type(record), record.id)
        if change := changes.get(key):
            _follow(change, record)
        else:
            changes[key] = _Change(record.version - 1, record)
    by_type: dict[type[Record], list[_Change]] = {}
    for (kind, _), change in changes.items():
        by_type.setdefault(kind, []).append(change)
    return by_type


def _follow(change: _Change, record: Record) -> None:
    if record.version == 1:
        raise DuplicateKey(f"{record.id} is inserted twice")
    if record.version != change.record.version + 1:
        raise StaleVersion(f"{record.id}: version {record.version} does not follow {change.record.version}")
    change.record = record


def _write_rows(connection: Connection, mapping: RecordMapping[Any], changes: Sequence[_Change]) -> None:
    inserts = [mapping.to_row(change.record) for change in changes if not change.from_version]
    updates = [change for change in changes if change.from_version]
    if inserts:
        insert_rows(connection, mapping.table, inserts)
    if updates:
        _replace(connection, mapping, sorted(updates, key=attrgetter("record.id")))


def _replace(connection: Connection, mapping: RecordMapping[Any], changes: Sequence[_Change]) -> None:
    """Replace rows in the order of their ids, so that transactions of two servers do not deadlock."""
    if not connection.dialect.supports_sane_multi_rowcount:
        _lock_versions(connection, mapping.table, changes)
    rows = [(*mapping.to_row(c.record)[1:], c.record.id, c.from_version) for c in changes]
    replaced = replace_rows(connection, mapping.table, rows)
    if connection.dialect.supports_sane_multi_rowcount and replaced.rowcount != len(rows):
        ids = ", ".join(change.record.id for change in changes[:5])
        raise StaleVersion(f"{len(rows) - replaced.rowcount} of {len(rows)} rows have another version: {ids}")


def _lock_versions(connection: Connection, table: Table, changes: Sequence[_Change]) -> None:
    """Check versions beforehand, for drivers that cannot count the rows changed by several updates."""
    from sqlalchemy.dialects.postgresql import ARRAY

    ids = bindparam("ids", [change.record.id for change in changes], type_=ARRAY(Text))
    stmt = select(table.c.id, table.c.version).where(table.c.id == any_(ids)).order_by(table.c.id).with_for_update()
    found = {row.id: row.version for row in connection.execute(stmt)}
    for change in changes:
        if found.get(change.record.id) != change.from_version:
            raise StaleVersion(
                f"{change.record.id} has version {found.get(change.record.id)}, not {change.from_version}"
            )


def _append_events(connection: Connection, batches: Sequence[Batch]) -> list[tuple[Event, ...]]:
    count = sum(len(batch.writes) for batch in batches)
    counter = reserve_numbers(connection, count)
    last = counter.number - count
    for batch in batches:
        check_seen(last, seen=batch.seen)
        last += len(batch.writes)
        if batch.epoch is not None and batch.epoch != counter.epoch:
            raise NotLeader(
                f"the batch was made in epoch {batch.epoch}, and another server leads in epoch {counter.epoch}"
            )
    check_not_stopped(connection, batches)
    log = _Log(counter.number - count, counter.hash, counter.epoch)
    events = [tuple(log.append(write, batch=batch) for write in batch.writes) for batch in batches]
    if log.rows:
        insert_rows(connection, EVENTS, log.rows)
    write_end(
        connection,
        end_hash=log.end_hash,
        at_us=_newest_us(counter.at_us, batches),
        pass_number=max(counter.pass_number, *(batch.pass_number or 0 for batch in batches)),
    )
    return events


def _newest_us(before_us: int, batches: Sequence[Batch]) -> int:
    """The latest time of an event since the last correction of the clock."""
    for batch in batches:
        is_correction = any(write.kind == CLOCK_CORRECTED for write in batch.writes)
        before_us = batch.at_us if is_correction else max(before_us, batch.at_us)
    return before_us


class _Log:
    """Event rows to append, chained to the end of the log."""

    def __init__(self, number: int, end_hash: bytes, epoch: int) -> None:
        self.number = number
        self.end_hash = end_hash
        self.epoch = epoch
        self.rows: list[tuple[Any, ...]] = []

    def append(self, write: RowWrite, *, batch: Batch) -> Event:
        record = write.record
        self.number += 1
        event = Event(
            number=self.number,
            at_us=batch.at_us,
            kind=write.kind,
            entity=MAPPINGS[type(record)].entity,
            entity_id=record.id,
            entity_version=record.version,
            actor=batch.actor,
            request_id=batch.request_id,
            epoch=self.epoch,
            pass_number=batch.pass_number,
            record=record,
        )
        self._chain(event, to_json(record))
        return event

    def _chain(self, event: Event, payload: bytes) -> None:
        columns = (
            event.number,
            event.at_us,
            event.kind,
            EVENT_FORMAT,
            event.entity.value,
            event.entity_id,
            event.entity_version,
            event.actor,
            event.request_id,
            event.epoch,
            event.pass_number,
        )
        previous, self.end_hash = self.end_hash, event_hash(self.end_hash, columns=columns, payload=payload)
        self.rows.append((*columns, previous, self.end_hash, payload.decode()))


GROUP_WRITES_MAX: Final = 4000
"""Writes per group. The batch that reaches this is the last of its group, which bounds the time of a transaction."""

_Waiting = tuple[Batch, asyncio.Future[tuple[Event, ...]]]


class GroupCommits:
    """Passes batches to `write` in groups, in the order of arrival, one group at a time."""

    def __init__(self, write: Callable[[Sequence[Batch]], Awaitable[Sequence[Outcome]]]) -> None:
        self._write = write
        self._waiting: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        """Wait until the batch is durable. Cancelling the caller does not withdraw its batch."""
        future: asyncio.Future[tuple[Event, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await future

    async def drain(self) -> None:
        """Wait until every accepted batch was written or rejected."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_group(self._take())
        finally:
            self._writing = None

    def _take(self) -> list[_Waiting]:
        group, writes = [], 0
        while self._waiting and writes < GROUP_WRITES_MAX:
            group.append(self._waiting.popleft())
            writes += len(group[-1][0].writes)
        return group

    async def _write_group(self, group: Sequence[_Waiting]) -> None:
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._write([batch for batch, _ in group])
        except StoreUnavailable as error:
            outcomes = [StoreUnavailable(str(error)) for _ in group]
        except Exception as error:  # a bug: every caller gets it, and the next group is tried
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
