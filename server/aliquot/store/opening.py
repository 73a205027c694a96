"""Choosing the database."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from aliquot.service.ports import StoreUnavailable
from aliquot.store.sqlite import SqliteDatabase
from aliquot.store.store import ENDED_SESSIONS_LOADED, Database, DatabaseStore

SQLITE_FILE = Path("server") / "aliquot.db"


def open_store(
    database_url: str, *, data_folder: Path, now_us: Callable[[], int], ended_limit: int = ENDED_SESSIONS_LOADED
) -> DatabaseStore:
    """Make a store; its `open` takes the database.

    Args:
        database_url: `sqlite:///<path>` or `postgresql+asyncpg://...`; empty for a SQLite file in the data folder.
        ended_limit: how many ended sessions `Loaded` holds at most.
    Raises:
        StoreUnavailable: the URL names no database that Aliquot can use.
    """
    return DatabaseStore(
        choose_database(database_url, data_folder=data_folder, now_us=now_us), now_us=now_us, ended_limit=ended_limit
    )


def choose_database(
    database_url: str, *, data_folder: Path, now_us: Callable[[], int], upgrades: bool = True
) -> Database:
    """The database that a URL names; arguments and errors as of `open_store`.

    Args:
        upgrades: whether `open` makes what is missing, and brings an older schema to this version.
    """
    if not database_url:
        return SqliteDatabase(data_folder / SQLITE_FILE, now_us=now_us, upgrades=upgrades)
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise StoreUnavailable(
            "the database URL cannot be read; write sqlite:///PATH or postgresql://HOST/NAME"
        ) from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return SqliteDatabase(Path(url.database), now_us=now_us, upgrades=upgrades)
    if kind == "postgresql":
        from aliquot.store.postgres import PostgresDatabase

        return PostgresDatabase(url, upgrades=upgrades)
    raise StoreUnavailable(f"{kind} is no database for Aliquot; write sqlite:///PATH or postgresql://HOST/NAME")
