"""PostgreSQL engine: a connection pool, single sessions for locks, and notifications of commits, all through asyncpg.

The pool's connections run the same functions as SQLite's threads. A cancelled caller does not cancel its work: the
driver would leave the connection half open.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable
from inspect import signature
from typing import Any, Final, TypeVar

import asyncpg
from sqlalchemy import URL, Connection
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.event import listen
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aliquot.service.ports import StoreUnavailable
from aliquot.store.cluster_mark import MarkFile
from aliquot.store.engines.database import unavailability
from aliquot.store.mapping import CHANNEL, SERVER_SETTING
from aliquot.store.migration import check_current, migrate
from aliquot_schema.async_tasks import run_shielded, wait_ended

CONNECT_S_MAX: Final = 5.0
SESSION_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""Errors of a session whose database or network connection fails."""
_POOL_OPTIONS: Final = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback"})


async def connect(url: URL, *, name: str, settings: dict[str, str] | None = None) -> Any:
    """Open a session outside of the pool.

    Args:
        name: application name in `pg_stat_activity`; PostgreSQL keeps the first 63 bytes.
        settings: server settings of this session.
    Raises:
        StoreUnavailable: the database cannot be reached.
    """
    dialect: Any = PGDialect_asyncpg  # SQLAlchemy leaves its dialects untyped
    _, options = dialect().create_connect_args(url)
    known = {key: value for key, value in options.items() if key not in _POOL_OPTIONS}
    connecting = asyncio.ensure_future(
        asyncpg.connect(**known, timeout=CONNECT_S_MAX, server_settings={**(settings or {}), "application_name": name})
    )
    try:
        await wait_ended(connecting)  # a connection cancelled while it is made stays half open
    except asyncio.CancelledError:
        if not connecting.cancelled() and connecting.exception() is None:
            connecting.result().terminate()
        raise
    try:
        return connecting.result()
    except SESSION_ERRORS as error:
        raise unavailable(error) from error


def check_options(url: URL) -> None:
    """Refuse an option that the driver does not have, like those of libpq. Raises StoreUnavailable."""
    dialect: Any = PGDialect_asyncpg
    try:
        _, options = dialect().create_connect_args(url)
    except (ArgumentError, ValueError) as error:
        raise StoreUnavailable(f"the database URL cannot be used: {error}") from None
    known = _POOL_OPTIONS.union(signature(asyncpg.connect).parameters)
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        hint = "; TLS is ssl=require or ssl=verify-full" if unknown.startswith("ssl") else ""
        raise StoreUnavailable(f"the database URL has an option {unknown!r}, which is not supported{hint}")


def unavailable(error: BaseException) -> StoreUnavailable:
    """A session's error as `StoreUnavailable`."""
    return unavailability(error) or StoreUnavailable(f"the database cannot be used now: {error}")


SILENT_S_MAX: Final = 8
"""TCP breaks a connection on which nothing was confirmed for so long, and changes under way fail. The leadership has
ended by then."""
_LINK: Final = {
    socket.TCP_USER_TIMEOUT: SILENT_S_MAX * 1000,
    socket.TCP_KEEPIDLE: SILENT_S_MAX // 2,
    socket.TCP_KEEPINTVL: 1,
    socket.TCP_KEEPCNT: SILENT_S_MAX // 2,
}


def _watch_link(connection: Any, _record: object) -> None:
    """Let TCP detect when a connection of the pool is cut; the driver alone would wait for the answer."""
    link = connection.driver_connection._transport.get_extra_info("socket")
    if link.family != socket.AF_UNIX:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _LINK.items():
            link.setsockopt(socket.IPPROTO_TCP, option, value)


T = TypeVar("T")


_POOL: Final[dict[str, Any]] = {"pool_size": 8, "max_overflow": 0, "pool_timeout": 10, "pool_use_lifo": True}
_CONNECT: Final[dict[str, Any]] = {"timeout": 10, "command_timeout": 60}
_SETTINGS: Final = {
    "application_name": "aliquot",
    # A server frozen within a transaction must not keep the counter locked for other servers.
    "idle_in_transaction_session_timeout": "10s",
    "synchronous_commit": "on",
}


class PostgresDatabase:
    """A `Database` that several servers may share; the counter's row puts their transactions in order."""

    def __init__(self, url: URL, *, upgrades: bool = True, mark: MarkFile | None = None) -> None:
        """Connections are made by `open`.

        Args:
            upgrades: off = reject a database without this version's schema.
            mark: reject a database of another cluster, unchanged; None = accept any.
        """
        self._upgrades = upgrades
        self._mark = mark
        self.server_id: Final = secrets.token_hex(8)
        """Distinguishes this server's commits from those of other servers."""
        check_options(url)
        self._url = url.set(drivername="postgresql+asyncpg")
        self._engine: AsyncEngine | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        """Reads and writes in progress."""

    async def open(self) -> None:
        settings = {**_SETTINGS, SERVER_SETTING: self.server_id}
        self._engine = create_async_engine(self._url, connect_args={**_CONNECT, "server_settings": settings}, **_POOL)
        listen(self._engine.sync_engine, "connect", _watch_link)
        if self._mark is not None:
            await self.write(self._mark.check)
        await self.write(migrate if self._upgrades else check_current)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await run_shielded(self._write(work), tasks=self._tasks)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await run_shielded(self._read(work), tasks=self._tasks)

    async def read_apart(self, work: Callable[[Connection], T]) -> T:
        return await self.read(work)

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.dispose()

    async def _write(self, work: Callable[[Connection], T]) -> T:
        async with self._opened().connect() as connection:
            return await connection.run_sync(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        async with self._opened().connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with connection.begin():
                return await connection.run_sync(work)

    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            raise StoreUnavailable("the database is not open")
        return self._engine


ANSWER_S_MAX: Final = 3.0


class PostgresListener:
    """Implements `News` by LISTEN on a session of its own, which is reopened when it breaks."""

    def __init__(self, url: URL, *, server_id: str) -> None:
        self._url = url
        self._server_id = server_id
        self._session: Any = None
        self._notified = asyncio.Event()

    async def wait(self, *, seconds: float) -> None:
        """See `News.wait`."""
        try:
            if self._session is None:
                await self._listen()
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        except TimeoutError:
            await self._check()
        except StoreUnavailable:
            await asyncio.sleep(seconds)
        self._notified.clear()

    async def close(self) -> None:
        """Stop listening."""
        session, self._session = self._session, None
        if session is not None:
            session.terminate()

    async def _listen(self) -> None:
        session = await connect(self._url, name="aliquot notices")
        session.add_termination_listener(self._on_closed)
        try:
            await session.add_listener(CHANNEL, self._on_notify)
        except SESSION_ERRORS as error:
            session.terminate()
            raise unavailable(error) from error
        except asyncio.CancelledError:
            session.terminate()
            raise
        self._session = session
        self._notified.set()  # commits from before the first notification

    async def _check(self) -> None:
        """After silence, test the connection: there may be no commits, or the connection may be cut."""
        session = self._session
        try:
            if session is not None:
                await session.execute("SELECT 1", timeout=ANSWER_S_MAX)
        except SESSION_ERRORS:
            session.terminate()
            self._on_closed(session)

    def _on_notify(self, _session: object, _pid: int, _channel: str, server_id: str) -> None:
        if server_id != self._server_id:
            self._notified.set()

    def _on_closed(self, session: object) -> None:
        if session is self._session:
            self._session = None
            self._notified.set()
