"""A TCP proxy in front of PostgreSQL's socket that can block all traffic."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from sqlalchemy import make_url

from remote_proxy import Proxy, proxied
from store_postgres import PostgresCluster


class PostgresProxy(NamedTuple):
    """Between a server and its database."""

    wire: Proxy
    url: str
    """The database URL through the proxy."""


@asynccontextmanager
async def postgres_proxy(cluster: PostgresCluster, database_url: str) -> AsyncIterator[PostgresProxy]:
    async with proxied(partial(asyncio.open_unix_connection, cluster.socket)) as wire:
        url = make_url(database_url).set(host="127.0.0.1", port=wire.port, query={})
        yield PostgresProxy(wire, url.render_as_string(hide_password=False))
