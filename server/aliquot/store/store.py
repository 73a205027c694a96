"""The port `Store` over a database: SQLite and PostgreSQL differ only in how a function of a connection is run."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection

from aliquot.service.ports import Batch, Loaded, SessionQuery, StoreUnavailable
from aliquot.store import queries
from aliquot.store.commits import Outcome, commit_group
from aliquot.store.faults import unavailability
from aliquot.store.groups import GroupCommits
from aliquot.store.loading import load, raise_epoch
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

    async def open(self) -> Loaded:
        try:
            loaded = await self._open()
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
        return await self._groups.commit(batch)

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        return await self._read(partial(queries.events_after, number=number, limit=limit))

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        return await self._read(partial(queries.list_sessions, query=query))

    async def count_sessions(self, query: SessionQuery) -> int:
        return await self._read(partial(queries.count_sessions, query=query))

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        return await self._read(partial(queries.session_records, session_id=session_id))

    async def session_by_key(self, owner: UserId, key: str) -> Session | None:
        return await self._read(partial(queries.session_by_key, owner=owner, key=key))

    async def _open(self) -> Loaded:
        await self._database.open()
        epoch = await self._database.write(partial(raise_epoch, now_us=self._now_us()))
        return await self._database.read(partial(load, epoch=epoch, ended_limit=self._ended_limit))

    async def _read(self, work: Work[T]) -> T:
        self._check_open()
        try:
            return await self._database.read(work)
        except Exception as error:
            _raise_unavailable(error)
            raise

    async def _write_group(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        try:
            return await self._database.write(partial(commit_group, batches=batches))
        except Exception as error:
            _raise_unavailable(error)
            raise

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the store is not open")


def _raise_unavailable(error: BaseException) -> None:
    """Raise the database's failure in the port's terms; do nothing when it is of another sort."""
    unavailable = unavailability(error)
    if unavailable is not None and unavailable is not error:
        raise unavailable from error
