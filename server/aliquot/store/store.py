"""The port `Store` over a database: SQLite and PostgreSQL differ only in how a function of a connection is run."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection

from aliquot.service.leadership.ports import Beginning, PresentTerm
from aliquot.service.measuring.store_counts import StoreMeasures
from aliquot.service.ports import Batch, Loaded, SessionQuery, StoreUnavailable
from aliquot.store import queries, session_lists
from aliquot.store.book import DatabaseBook
from aliquot.store.commits import Outcome, commit_group
from aliquot.store.faults import is_no_text, unavailability
from aliquot.store.groups import GroupCommits
from aliquot.store.ledger.ledger import DatabaseLedger
from aliquot.store.loading import load, raise_epoch
from aliquot.store.outbox import DatabaseOutbox
from aliquot.store.sqlite import SqliteDatabase, back_up
from aliquot.store.terms import begin_term, present_term
from aliquot_schema.doctor_views import DatabaseCopy
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import Session

T = TypeVar("T")
Work = Callable[[Connection], T]

ENDED_SESSIONS_LOADED: Final = 10_000


class Database(Protocol):
    """Runs functions of a SQLAlchemy `Connection`, one after another or beside each other."""

    async def open(self) -> None:
        """Take the database and bring its schema to this version."""

    async def write(self, work: Work[T]) -> T:
        """Run what makes its own transactions."""

    async def read(self, work: Work[T]) -> T:
        """Run what only reads, in a transaction that sees one snapshot."""

    async def close(self) -> None:
        """Let go. Harmless when `open` failed or was not called."""


class DatabaseStore:
    """`aliquot.service.ports.Store`; what its methods promise is said there."""

    def __init__(
        self, database: Database, *, now_us: Callable[[], int], ended_limit: int = ENDED_SESSIONS_LOADED
    ) -> None:
        self._database = database
        self._now_us = now_us
        self._ended_limit = ended_limit
        self._groups = GroupCommits(self._write_group)
        self._is_open = False
        self.measures: Final = StoreMeasures()
        self.ledger: Final = DatabaseLedger(self)
        self.book: Final = DatabaseBook(self)
        self.outbox: Final = DatabaseOutbox(self)

    async def open(self) -> Loaded:
        return await self._opened(leads=True)

    async def join(self) -> Loaded:
        """See `aliquot.service.leadership.ports.SharedStore.join`."""
        return await self._opened(leads=False)

    async def begin_term(self) -> Beginning:
        """See `aliquot.service.leadership.ports.SharedStore.begin_term`."""
        return await self.write(partial(begin_term, now_us=self._now_us()))

    def copy_path(self) -> str:
        """See `aliquot.service.copying.DatabaseFile`, which a store on SQLite is."""
        assert isinstance(self._database, SqliteDatabase), "only a file can be copied"
        return str(self._database.copy_path(self._now_us()))

    async def copy(self, path: str) -> DatabaseCopy:
        """See `aliquot.service.copying.DatabaseFile`; reads wait meanwhile, writes do not."""
        await self.read(partial(back_up, path=Path(path)))
        return DatabaseCopy(path=path, size_bytes=os.stat(path).st_size)

    async def present_term(self) -> PresentTerm:
        """See `aliquot.service.leadership.ports.SharedStore.present_term`."""
        return await self.read(present_term)

    async def _opened(self, *, leads: bool) -> Loaded:
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

    async def events_of(self, session_id: SessionId, *, after: int, limit: int) -> tuple[Event, ...]:
        return await self.read(partial(queries.events_of, session_id=session_id, after=after, limit=limit))

    async def session_steps(
        self, session_id: SessionId, *, kinds: Collection[str], before: int | None, limit: int
    ) -> tuple[Event, ...]:
        look = partial(queries.session_steps, session_id=session_id, kinds=kinds, before=before, limit=limit)
        return await self.read(look)

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        return await self.read(partial(session_lists.list_sessions, query=query))

    async def count_sessions(self, query: SessionQuery) -> int:
        return await self.read(partial(session_lists.count_sessions, query=query))

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        return await self.read(partial(queries.session_records, session_id=session_id))

    async def session_by_key(self, owner: UserId, key: str) -> Session | None:
        return await self.read(partial(queries.session_by_key, owner=owner, key=key))

    async def _open(self, *, leads: bool) -> Loaded:
        await self._database.open()
        epoch = await self._database.write(partial(raise_epoch, now_us=self._now_us())) if leads else None
        return await self._database.read(partial(load, epoch=epoch, ended_limit=self._ended_limit))

    async def read(self, work: Work[T]) -> T:
        """Run what only reads."""
        self._check_open()
        with self.measures.timed("read"), _in_our_terms():
            return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        """Run what makes its own transactions, between two groups of commits."""
        self._check_open()
        with self.measures.timed("write"), _in_our_terms():
            return await self._database.write(work)

    async def _write_group(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        with _in_our_terms():
            return await self._database.write(partial(commit_group, batches=batches))

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the store is not open")


@contextmanager
def _in_our_terms() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _raise_unavailable(error)
        if is_no_text(error):
            raise InvalidRequest("a text holds a NUL character, which nothing that is kept has") from error
        raise


def _raise_unavailable(error: BaseException) -> None:
    """Raise the database's failure in the port's terms; do nothing when it is of another sort."""
    unavailable = unavailability(error)
    if unavailable is not None and unavailable is not error:
        raise unavailable from error
