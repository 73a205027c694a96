"""Stores for service stages: in memory, SQLite and PostgreSQL, each new and at the current schema."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from aliquot.service.ports import LoadedRows, Store
from aliquot.store.loading import load
from aliquot.store.store import DatabaseStore
from service_memory_store import MemoryStore
from store_places import Place
from store_postgres import PostgresCluster

NewStore = Callable[[], Awaitable[Store]]


async def new_memory_store() -> Store:
    return MemoryStore()


def sqlite_stores(template: Path, folder: Path) -> NewStore:
    """Copies of a migrated file; see `migrate`."""

    async def new() -> Store:
        place = Place("", folder)
        place.sqlite_file.parent.mkdir()
        shutil.copy(template, place.sqlite_file)
        return await _opened(place)

    return new


def postgres_stores(postgres: PostgresCluster, template: str, folder: Path, *, made: list[str]) -> NewStore:
    """Copies of a migrated database; see `migrate`.

    Args:
        made: receives the URLs, so that they can be dropped.
    """

    async def new() -> Store:
        url = await asyncio.to_thread(postgres.new_database, template=template)
        made.append(url)
        return await _opened(Place(url, folder))

    return new


async def reread(store: Store) -> LoadedRows:
    """What a server would load."""
    if isinstance(store, DatabaseStore):
        return await store.read(partial(load, epoch=None, ended_limit=10_000))
    return await store.open()


def migrate(place: Place) -> None:
    """Migrate a new database to this schema; close it."""

    async def once() -> None:
        database = place.database()
        await database.open()
        await database.close()

    asyncio.run(once())


async def _opened(place: Place) -> Store:
    store = place.store()
    await store.open()
    return store
