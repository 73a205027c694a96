"""A test's database location."""

from dataclasses import dataclass
from itertools import count
from pathlib import Path

import asyncpg

from aliquot.store.open import SQLITE_FILE, choose_database, open_store
from aliquot.store.store import Database, DatabaseStore

_times = count(1_700_000_000_000_000)


def now_us() -> int:
    """A later time with every call."""
    return next(_times)


@dataclass(frozen=True)
class Place:
    """A database for any number of stores, one after another or concurrently."""

    url: str
    folder: Path

    @property
    def sqlite_file(self) -> Path:
        """The file when `url` is empty."""
        return self.folder / SQLITE_FILE

    def store(self, *, ended_limit: int = 10_000) -> DatabaseStore:
        """A store that is not yet open."""
        return open_store(self.url, data_folder=self.folder, now_us=now_us, ended_limit=ended_limit)

    def database(self) -> Database:
        """The database below the store, not yet open."""
        return choose_database(self.url, data_folder=self.folder, now_us=now_us)

    async def execute(self, statement: str) -> None:
        """Change a PostgreSQL database without the store."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
