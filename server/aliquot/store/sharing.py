"""What several servers on one database need of it: the store, the leader's seat, news of commits, and a
relay of what devices measure."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import make_url

from aliquot.store.leadership import PostgresSeat
from aliquot.store.notices import PostgresNotices
from aliquot.store.postgres import PostgresDatabase
from aliquot.store.relay.relay import PostgresRelay
from aliquot.store.store import DatabaseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDatabase:
    """Nothing of it is connected yet."""

    store: DatabaseStore
    seat: PostgresSeat
    news: PostgresNotices
    relay: PostgresRelay


def share(database_url: str, *, now_us: Callable[[], int], address: str) -> SharedDatabase:
    """Make the parts.

    Args:
        database_url: one that `is_shared`.
        address: where this server is reached; the others name it when it leads.
    """
    url = make_url(database_url)
    database = PostgresDatabase(url)
    store = DatabaseStore(database, now_us=now_us)
    return SharedDatabase(
        store=store,
        seat=PostgresSeat(url, address=address),
        news=PostgresNotices(url, server_id=database.server_id),
        relay=PostgresRelay(store),
    )
