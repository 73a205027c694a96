"""Durable submissions over HTTP, to a cluster whose GPUs are all held."""

import time

from cluster import cluster, creation, occupy, percentile, submit
from registry import Key, scenario

from aliquot.cli.main_job.own_server import OwnServer

ALONE = 1000
TOGETHER = 4000
CLIENTS = 64


@scenario(
    Key(name="submit_per_s_1", what="durable submissions, one client", reach=">= 300"),
    Key(name="submit_per_s_64", what="durable submissions, 64 clients", reach=">= 1000"),
    Key(name="submit_p99_s", what="p99 of one: the worse of one client and 64", reach="<= 0.1"),
)
async def submissions() -> dict[str, float]:
    """Each is acknowledged after its commit."""
    async with cluster() as server:
        await occupy(server)
        alone, rate_alone = await _timed(server, count=ALONE, clients=1)
        together, rate_together = await _timed(server, count=TOGETHER, clients=CLIENTS)
    return {
        "submit_per_s_1": rate_alone,
        "submit_per_s_64": rate_together,
        "submit_p99_s": max(percentile(alone, 0.99), percentile(together, 0.99)),
    }


async def _timed(server: OwnServer, *, count: int, clients: int) -> tuple[list[float], float]:
    bodies = [creation(argv=["true"], run="submissions", name=f"job {number}") for number in range(count)]
    began = time.perf_counter()
    took = await submit(server, bodies, clients=clients)
    return took, count / (time.perf_counter() - began)
