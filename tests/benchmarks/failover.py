"""Two servers on PostgreSQL: the leader is killed, or frozen, and a session is placed again by the other one."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from registry import Key, scenario

from aliquot.cli.main_job.own_server import OwnServer

sys.path.append(str(Path(__file__).parents[1] / "support"))

from failover_cluster import failover_cluster, freeze  # the path is made above
from store_postgres import postgres_cluster


@scenario(Key(name="failover_s", what="leader killed -9, until a submission is placed again", reach="<= 10"))
async def killed() -> dict[str, float]:
    """With the usual beats and patience of servers and agents."""
    return {"failover_s": await _until_placed_again(lambda leader: leader.kill())}


@scenario(Key(name="failover_frozen_s", what="leader SIGSTOPped, until a submission is placed again", reach="<= 30"))
async def frozen() -> dict[str, float]:
    """As above; a frozen leader keeps its connections."""

    async def blow(leader: OwnServer) -> None:
        freeze(leader)

    return {"failover_frozen_s": await _until_placed_again(blow)}


async def _until_placed_again(blow: Callable[[OwnServer], Awaitable[None]]) -> float:
    with postgres_cluster() as postgres:
        url = await asyncio.to_thread(postgres.new_database)
        async with failover_cluster(url, url, environment={}) as on:
            before = await on.submit("exit 0", key="before")
            await on.until_state(before, "completed")
            began = time.perf_counter()
            await blow(on.servers[0])
            after = await on.submit("exit 0", key="after", first=1)
            await on.until_state(after, "running", "completed", at=on.servers[1])
            return time.perf_counter() - began
