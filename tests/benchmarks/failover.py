"""Two servers on PostgreSQL: time from a killed, frozen or cut-off leader to the next placement."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from registry import Key, scenario

sys.path.append(str(Path(__file__).parents[1] / "support"))

from failover_cluster import FailoverCluster, failover_cluster, pause_server  # the path is set above
from failover_proxy import PostgresProxy, postgres_proxy
from store_postgres import postgres_cluster


@scenario(Key(name="failover_s", what="leader killed -9, until a submission is placed again", reach="<= 10"))
async def killed() -> dict[str, float]:
    """With default heartbeats and timeouts of servers and agents."""
    async with _two_servers() as (on, _):
        began = time.perf_counter()
        await on.servers[0].kill()
        return {"failover_s": await _placed_again(on) - began}


@scenario(Key(name="failover_frozen_s", what="leader SIGSTOPped, until a submission is placed again", reach="<= 30"))
async def frozen() -> dict[str, float]:
    """As above; a frozen leader keeps its connections."""
    async with _two_servers() as (on, _):
        began = time.perf_counter()
        pause_server(on.servers[0])
        return {"failover_frozen_s": await _placed_again(on) - began}


@scenario(
    Key(
        name="failover_cut_s",
        what="leader's way to PostgreSQL lets nothing through, until a submission is placed again",
        reach="<= 30",
    )
)
async def cut_off() -> dict[str, float]:
    """As above; both ends keep their TCP connections, and the leader still answers."""
    async with _two_servers() as (on, way):
        began = time.perf_counter()
        way.wire.stall()
        taken_s = await _placed_again(on) - began
        way.wire.resume()
        return {"failover_cut_s": taken_s}


@asynccontextmanager
async def _two_servers() -> AsyncIterator[tuple[FailoverCluster, PostgresProxy]]:
    """A working cluster, and a proxy from its leader to the database."""
    with postgres_cluster() as postgres:
        url = await asyncio.to_thread(postgres.new_database)
        async with postgres_proxy(postgres, url) as way, failover_cluster(way.url, url, environment={}) as on:
            before = await on.submit("exit 0", key="before")
            await on.wait_for_state(before, "completed")
            yield on, way


async def _placed_again(on: FailoverCluster) -> float:
    """The time at which a session submitted now runs, according to the second server."""
    after = await on.submit("exit 0", key="after", first=1)
    await on.wait_for_state(after, "running", "completed", at=on.servers[1])
    return time.perf_counter()
