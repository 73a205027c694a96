"""Connections of PostgreSQL that live beside the pool: for what belongs to a session, like locks and notices."""

import asyncio
from contextlib import suppress
from typing import Any, Final

import asyncpg
from sqlalchemy import URL
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from aliquot.service.ports import StoreUnavailable
from aliquot.store.faults import unavailability

CONNECT_S_MAX: Final = 5.0
FAULTS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""What a session raises when the database, or the way to it, does not work."""
_OF_THE_POOL: Final = frozenset({"prepared_statement_cache_size", "prepared_statement_name_func", "async_fallback"})


async def connect(url: URL, *, name: str, settings: dict[str, str] | None = None) -> Any:
    """Open a session of its own.

    Args:
        name: how it is called in `pg_stat_activity`; PostgreSQL keeps 63 bytes of it.
        settings: of the server, for this session.
    Raises:
        StoreUnavailable: there is no way to the database now.
    """
    dialect: Any = PGDialect_asyncpg  # SQLAlchemy leaves its dialects untyped
    _, options = dialect().create_connect_args(url)
    known = {key: value for key, value in options.items() if key not in _OF_THE_POOL}
    connecting = asyncio.ensure_future(
        asyncpg.connect(**known, timeout=CONNECT_S_MAX, server_settings={**(settings or {}), "application_name": name})
    )
    try:
        return await asyncio.shield(connecting)
    except FAULTS as error:
        raise away(error) from error
    except asyncio.CancelledError:
        # A connection that is canceled while it is made stays half open.
        with suppress(*FAULTS):
            (await connecting).terminate()
        raise


def away(error: BaseException) -> StoreUnavailable:
    """The fault of a session in the port's terms."""
    return unavailability(error) or StoreUnavailable(f"the database cannot be used now: {error}")
