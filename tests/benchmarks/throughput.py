"""Throughput of no-op sessions, from first submission to last end."""

import time

from cluster import cluster, creation, submit, until_count
from http_load import Connection
from registry import Key, scenario

SESSIONS = 1000
CLIENTS = 8


@scenario(Key(name="jobs_per_s", what="`true` sessions started and finished, 64 mock GPUs", reach=">= 100"))
async def throughput() -> dict[str, float]:
    """Includes submission: the queue fills while it is worked off."""
    async with cluster() as server:
        bodies = [creation(argv=["true"], run="throughput") for _ in range(SESSIONS)]
        began = time.perf_counter()
        await submit(server, bodies, clients=CLIENTS)
        async with Connection(server.port, server.token) as connection:
            await until_count(connection, SESSIONS, run="throughput", states=["completed"])
        return {"jobs_per_s": SESSIONS / (time.perf_counter() - began)}
