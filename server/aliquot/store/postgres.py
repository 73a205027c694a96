"""PostgreSQL through asyncpg: a pool whose connections run the same functions as SQLite's threads do."""

import secrets
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aliquot.service.ports import StoreUnavailable
from aliquot.store.channel import SERVER_SETTING
from aliquot.store.migration import check_current, migrate
from aliquot.store.unbroken import Unbroken

T = TypeVar("T")

_POOL: Final[dict[str, Any]] = {"pool_size": 8, "max_overflow": 0, "pool_timeout": 10, "pool_use_lifo": True}
_CONNECT: Final[dict[str, Any]] = {"timeout": 10, "command_timeout": 60}
_SETTINGS: Final = {
    "application_name": "aliquot",
    # A server that was stopped in the middle of a transaction must not keep the counter locked for the others.
    "idle_in_transaction_session_timeout": "10s",
    "synchronous_commit": "on",
}


class PostgresDatabase:
    """A `Database` that several servers may share; the counter's row puts their transactions in order."""

    def __init__(self, url: URL, *, upgrades: bool = True) -> None:
        """With `upgrades` off, a database without this version's schema is refused."""
        self._upgrades = upgrades
        self.server_id: Final = secrets.token_hex(8)
        """Tells the commits of this server from those of others."""
        self._url = url.set(drivername="postgresql+asyncpg")
        self._engine: AsyncEngine | None = None
        self._unbroken = Unbroken()

    async def open(self) -> None:
        settings = {**_SETTINGS, SERVER_SETTING: self.server_id}
        self._engine = create_async_engine(self._url, connect_args={**_CONNECT, "server_settings": settings}, **_POOL)
        await self.write(migrate if self._upgrades else check_current)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._unbroken.run(self._write(work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._unbroken.run(self._read(work))

    async def close(self) -> None:
        await self._unbroken.drain()
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
