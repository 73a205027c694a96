"""Database store: implements the ports `Store` and `AuditStore`, the same for SQLite and PostgreSQL."""

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import asdict
from sqlalchemy import Connection, Row, event, text

from aliquot.service.audit.audit import AuditQuery, Change, Holding, RecordCounts
from aliquot.service.leadership.ports import CurrentTerm, TermStart
from aliquot.service.ledger.entries import PassEntry
from aliquot.service.metrics.counters import StoreMeasures
from aliquot.service.ports import Batch, LoadedRows, SessionQuery, StoreUnavailable
from aliquot.store.alerts import DatabaseOutbox
from aliquot.store.archive.search import archived, merged, seals_after
from aliquot.store.archive.verification import all_seals, verify_archives
from aliquot.store.audit import holdings, log
from aliquot.store.audit.holdings import catch_up
from aliquot.store.backtests import DatabaseBacktests
from aliquot.store.commit import GroupCommits, Outcome, commit_group
from aliquot.store.engines.database import is_nul_error, unavailability
from aliquot.store.engines.sqlite import SqliteDatabase, back_up
from aliquot.store.forecasts import DatabaseForecasts
from aliquot.store.hash_chain import ChainBroken
from aliquot.store.integrity import VerifiedCounts, verified
from aliquot.store.ledger import ledger
from aliquot.store.ledger.ledger import DatabaseLedger
from aliquot.store.loading import begin_term, load, present_term, raise_epoch
from aliquot.store.queries import queries, session_lists
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import Session
from aliquot_schema.views.server import DatabaseCopy


class DatabaseAudit:
    """Implements `aliquot.service.audit.audit.AuditStore`, which documents the methods."""

    def __init__(self, database: "DatabaseStore", *, archive: Path | None = None) -> None:
        """
        Args:
            archive: the archive folder; None = not configured.
        """
        self._database = database
        self._archive = archive

    async def changes(self, query: AuditQuery) -> tuple[Change, ...]:
        return await self._database.read(partial(log.changes, query=query))

    async def held_at(self, device_id: str, at_us: int) -> tuple[Holding, ...]:
        await catch_up(self._database)
        kept = await self._database.read(partial(holdings.held_at, device_id=device_id, at_us=at_us))
        return merged(kept, await self._archived(device_id, first_us=at_us, last_us=at_us))

    async def held_between(
        self, device_id: str, *, first_us: int, last_us: int, before: int | None, limit: int
    ) -> tuple[Holding, ...]:
        await catch_up(self._database)
        within = partial(holdings.held_over, device_ids=[device_id], first_us=first_us, last_us=last_us)
        kept = await self._database.read(partial(within, before=before, limit=limit))
        past = await self._archived(device_id, first_us=first_us, last_us=last_us)
        found = merged(kept, (held for held in past if before is None or held.granted_event < before))
        return found[-limit:]

    async def verified(self) -> RecordCounts:
        found, seals = await self._database.read_apart(_verified)
        if isinstance(found, str):
            return RecordCounts(faults=(found,))
        checked = await asyncio.to_thread(verify_archives, seals, folder=self._archive or Path())
        return RecordCounts(
            faults=checked.faults,
            **asdict(found),
            archives=checked.files,
            archived_rows=checked.rows,
            removed_rows=checked.gone,
        )

    async def _archived(self, device_id: str, *, first_us: int, last_us: int) -> tuple[Holding, ...]:
        sealed = await self._database.read(partial(seals_after, first_us=first_us))
        if not sealed:
            return ()
        if self._archive is None:
            raise StoreUnavailable(
                "holdings of that time are archived, and no archive folder is set; name it with archive-folder"
            )
        search = partial(archived, sealed, folder=self._archive, device_id=device_id, first_us=first_us)
        return await asyncio.to_thread(search, last_us=last_us)

    async def held_over(
        self, device_ids: Sequence[str], *, first_us: int, last_us: int | None, limit: int
    ) -> tuple[Holding, ...]:
        await catch_up(self._database)
        within = partial(holdings.held_over, device_ids=device_ids, first_us=first_us, last_us=last_us, limit=limit)
        return await self._database.read(within)

    async def passes(self, *, before: int | None, limit: int) -> tuple[PassEntry, ...]:
        return await self._database.read(partial(ledger.newest, before=before, limit=limit))


def _verified(connection: Connection) -> tuple[VerifiedCounts | str, list[Row[Any]]]:
    """What was verified, or the fault; and the seals of the archives."""
    try:
        return verified(connection), all_seals(connection)
    except ChainBroken as broken:
        return str(broken), []


T = TypeVar("T")
Work = Callable[[Connection], T]

ENDED_SESSIONS_LOADED: Final = 10_000


class Database(Protocol):
    """Runs functions of a SQLAlchemy `Connection`, serially or concurrently."""

    async def open(self) -> None:
        """Connect, and upgrade the schema to this version."""

    async def write(self, work: Work[T]) -> T:
        """Run a function that begins its own transactions."""

    async def read(self, work: Work[T]) -> T:
        """Run a function that only reads, in a transaction that sees one snapshot."""

    async def close(self) -> None:
        """Disconnect. Harmless if `open` failed or was not called."""


class MainDatabase(Database, Protocol):
    """The database of the records."""

    async def read_apart(self, work: Work[T]) -> T:
        """Like `read`, for minutes, without delaying other reads."""


class DatabaseStore:
    """Implements `aliquot.service.ports.Store`, which documents the methods."""

    def __init__(
        self,
        database: MainDatabase,
        *,
        now_us: Callable[[], int],
        ended_limit: int = ENDED_SESSIONS_LOADED,
        archive: Path | None = None,
    ) -> None:
        """
        Args:
            ended_limit: maximum number of ended sessions in `LoadedRows`.
            archive: the archive folder; None = not configured.
        """
        self._database = database
        self._now_us = now_us
        self._ended_limit = ended_limit
        self._groups = GroupCommits(self._write_group)
        self._is_open = False
        self.measures: Final = StoreMeasures()
        self.ledger: Final = DatabaseLedger(self)
        self.book: Final = DatabaseAudit(self, archive=archive)
        self.outbox: Final = DatabaseOutbox(self)
        self.forecasts: Final = DatabaseForecasts(self)
        self.backtests: Final = DatabaseBacktests(self)

    async def open(self) -> LoadedRows:
        return await self._opened(leads=True)

    async def join(self) -> LoadedRows:
        """See `aliquot.service.leadership.ports.SharedStore.join`."""
        return await self._opened(leads=False)

    async def begin_term(self) -> TermStart:
        """See `aliquot.service.leadership.ports.SharedStore.begin_term`."""
        return await self.write(partial(begin_term, now_us=self._now_us()))

    def copy_path(self) -> str:
        """See `aliquot.service.admin.admin.DatabaseFile`; SQLite only."""
        assert isinstance(self._database, SqliteDatabase), "only a file can be copied"
        return str(self._database.copy_path(self._now_us()))

    async def copy(self, path: str) -> DatabaseCopy:
        """See `aliquot.service.admin.admin.DatabaseFile`. Reads wait meanwhile, writes do not."""
        await self.read(partial(back_up, path=Path(path)))
        return DatabaseCopy(path=path, size_bytes=os.stat(path).st_size)

    async def present_term(self) -> CurrentTerm:
        """See `aliquot.service.leadership.ports.SharedStore.present_term`."""
        return await self.read(present_term)

    async def database_us(self) -> int | None:
        """The time of the database's machine, microseconds UTC; None = SQLite, which has no clock of its own."""
        return await self.read(_database_us)

    async def _opened(self, *, leads: bool) -> LoadedRows:
        try:
            loaded = await self._open(leads=leads)
        except BaseException as error:
            await self._database.close()
            _raise_unavailable(error)
            raise
        self._is_open = True
        return loaded

    async def close(self) -> None:
        self._is_open = False
        await self._groups.drain()
        await self._database.close()

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        self._check_open()
        with self.measures.timed("commit"):
            return await self._groups.commit(batch)

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        return await self.read(partial(queries.events_after, number=number, limit=limit))

    async def news_after(self, seen: int, *, limit: int) -> tuple[Event, ...]:
        return await self.read(partial(queries.news_after, seen=seen, limit=limit))

    async def events_of(self, session_id: SessionId, *, after: int, limit: int) -> tuple[Event, ...]:
        return await self.read(partial(queries.events_of, session_id=session_id, after=after, limit=limit))

    async def session_steps(
        self, session_id: SessionId, *, kinds: Collection[str], before: int | None, limit: int
    ) -> tuple[Event, ...]:
        search = partial(queries.session_steps, session_id=session_id, kinds=kinds, before=before, limit=limit)
        return await self.read(search)

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        return await self.read(partial(session_lists.list_sessions, query=query))

    async def count_sessions(self, query: SessionQuery) -> int:
        return await self.read(partial(session_lists.count_sessions, query=query))

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        return await self.read(partial(queries.session_records, session_id=session_id))

    async def session_by_key(self, owner: UserId, key: str) -> Session | None:
        return await self.read(partial(queries.session_by_key, owner=owner, key=key))

    async def _open(self, *, leads: bool) -> LoadedRows:
        await self._database.open()
        epoch = await self._database.write(partial(raise_epoch, now_us=self._now_us())) if leads else None
        return await self._database.read(partial(load, epoch=epoch, ended_limit=self._ended_limit))

    async def read(self, work: Work[T]) -> T:
        """Run a function that only reads."""
        self._check_open()
        with self.measures.timed("read"), _port_errors():
            return await self._database.read(work)

    async def read_apart(self, work: Work[T]) -> T:
        """Run a function that reads for minutes. It ends with `StoreUnavailable` when the store is closed."""
        self._check_open()

        def run(connection: Connection) -> T:
            event.listen(connection, "before_cursor_execute", lambda *_: self._check_open())
            return work(connection)

        with _port_errors():
            return await self._database.read_apart(run)

    async def write(self, work: Work[T]) -> T:
        """Run a function that begins its own transactions, between two groups of commits."""
        self._check_open()
        with self.measures.timed("write"), _port_errors():
            return await self._database.write(work)

    async def _write_group(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        with _port_errors():
            return await self._database.write(partial(commit_group, batches=batches))

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the store is not open")


@contextmanager
def _port_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _raise_unavailable(error)
        if is_nul_error(error):
            raise InvalidRequest("a text contains a NUL character, which cannot be stored; remove it") from error
        raise


def _raise_unavailable(error: BaseException) -> None:
    """Raise `StoreUnavailable` for a failure of the database; return for other errors."""
    unavailable = unavailability(error)
    if unavailable is not None and unavailable is not error:
        raise unavailable from error


def _database_us(connection: Connection) -> int | None:
    if connection.dialect.name != "postgresql":
        return None
    return int(connection.execute(text("SELECT extract(epoch FROM clock_timestamp()) * 1000000")).scalar_one())
