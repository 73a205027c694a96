"""Database selection: makes the store, and for shared databases the leadership parts, that a database URL names.

SQLite serves one server; PostgreSQL may be shared by several. Nothing is connected here.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from aliquot.service.leadership.ports import CommitNotifications, FreeLock, LeadershipLock
from aliquot.service.leadership.readings_relay import ReadingsRelay
from aliquot.service.ports import StoreUnavailable
from aliquot.store.cluster_mark import MarkFile
from aliquot.store.engines.sqlite import SqliteDatabase
from aliquot.store.store import ENDED_SESSIONS_LOADED, DatabaseStore, MainDatabase

SQLITE_FILE = Path("server") / "aliquot.db"


def open_store(
    database_url: str,
    *,
    data_folder: Path,
    now_us: Callable[[], int],
    ended_limit: int = ENDED_SESSIONS_LOADED,
    mark: MarkFile | None = None,
    archive: Path | None = None,
) -> DatabaseStore:
    """Make a store; its `open` connects to the database.

    Args:
        database_url: `sqlite:///<path>` or `postgresql+asyncpg://...`; empty = a SQLite file in the data folder.
        ended_limit: maximum number of ended sessions in `Loaded`.
        mark: checked against the database when it is opened; None = any database is accepted.
        archive: the archive folder; None = not configured.
    Raises:
        StoreUnavailable: the URL does not name a supported database.
    """
    database = choose_database(database_url, data_folder=data_folder, now_us=now_us, mark=mark)
    return DatabaseStore(database, now_us=now_us, ended_limit=ended_limit, archive=archive)


def sqlite_path(database_url: str, *, data_folder: Path) -> Path | None:
    """The SQLite file that a URL names; None for other databases. Raises like `open_store`."""
    if not database_url:
        return data_folder / SQLITE_FILE
    url = _url_of(database_url)
    is_file = url.get_backend_name() == "sqlite" and url.database != ":memory:"
    return Path(url.database) if is_file and url.database else None


def choose_database(
    database_url: str,
    *,
    data_folder: Path,
    now_us: Callable[[], int],
    upgrades: bool = True,
    mark: MarkFile | None = None,
) -> MainDatabase:
    """The database that a URL names; arguments and errors like `open_store`.

    Args:
        upgrades: whether `open` creates a missing database and upgrades an older schema.
    """
    path = sqlite_path(database_url, data_folder=data_folder)
    if path is not None:
        return SqliteDatabase(path, now_us=now_us, upgrades=upgrades, mark=mark)
    url = _url_of(database_url)
    kind = url.get_backend_name()
    if kind == "postgresql":
        from aliquot.store.engines.postgres import PostgresDatabase

        return PostgresDatabase(url, upgrades=upgrades, mark=mark)
    raise StoreUnavailable(f"{kind} is not supported as a database; write sqlite:///PATH or postgresql://HOST/NAME")


def _url_of(database_url: str) -> URL:
    try:
        return make_url(database_url)
    except (ArgumentError, ValueError):  # the latter for a port
        raise StoreUnavailable(
            "the database URL cannot be read; write sqlite:///PATH or postgresql://HOST/NAME"
        ) from None


def is_shared(database_url: str) -> bool:
    """Whether several servers may use the database of this URL; False for an invalid URL."""
    try:
        return bool(database_url) and make_url(database_url).get_backend_name() == "postgresql"
    except (ArgumentError, ValueError):
        return False


class ServerDatabase(Struct, frozen=True, kw_only=True):
    """What a server needs of its database. Nothing of it is connected yet."""

    store: DatabaseStore
    lock: LeadershipLock
    notifications: CommitNotifications | None
    """None: no other server writes this database."""
    relay: ReadingsRelay | None
    """None: there are no followers to publish device readings to."""

    @property
    def is_shared(self) -> bool:
        """Whether other servers may use the database at the same time."""
        return self.notifications is not None


def open_database(
    database_url: str,
    *,
    data_folder: Path,
    now_us: Callable[[], int],
    address: str,
    mark: MarkFile | None = None,
    archive: Path | None = None,
) -> ServerDatabase:
    """Make the parts.

    Args:
        database_url: as for `open_store`.
        address: the URL of this server, shown by the other servers while it leads.
        mark: checked against the database when it is opened; None = any database is accepted.
        archive: the archive folder; None = not configured.
    Raises:
        StoreUnavailable: the URL names no database that Aliquot can use.
    """
    if is_shared(database_url):
        return share(database_url, now_us=now_us, address=address, mark=mark, archive=archive)
    store = open_store(database_url, data_folder=data_folder, now_us=now_us, mark=mark, archive=archive)
    return ServerDatabase(store=store, lock=FreeLock(address), notifications=None, relay=None)


def share(
    database_url: str,
    *,
    now_us: Callable[[], int],
    address: str,
    mark: MarkFile | None = None,
    archive: Path | None = None,
) -> ServerDatabase:
    """The parts for one of several servers; arguments as of `open_database`, with a URL that `is_shared`."""
    # Imported here: a start on SQLite does without the driver of PostgreSQL.
    from aliquot.store.engines.postgres import PostgresDatabase, PostgresListener
    from aliquot.store.replication.leadership import PostgresLeadershipLock
    from aliquot.store.replication.readings_relay import PostgresRelay

    url = make_url(database_url)
    database = PostgresDatabase(url, mark=mark)
    store = DatabaseStore(database, now_us=now_us, archive=archive)
    return ServerDatabase(
        store=store,
        lock=PostgresLeadershipLock(url, address=address),
        notifications=PostgresListener(url, server_id=database.server_id),
        relay=PostgresRelay(store),
    )
