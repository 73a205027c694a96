"""A server with 10,000 sessions pending and 64 running: its memory, lists and restart time.

SQLite runs in the server's own process; PostgreSQL's processes are not counted.
"""

import time
from pathlib import Path
from statistics import median

from cluster import cluster, count, creation, occupy, submit
from http_load import Connection, request
from postgresql import as_twins, cluster_on_postgresql
from registry import Key, scenario

from aliquot.cli.acceptance.processes import OwnServer

PENDING = 10_000
ROUNDS = 50

FIRST_100 = """
query {
  queue(first: 100) {
    total_count
    edges { node { position session {
      id name owner state priority cluster_size queued_at slots { slot amount } waits { reason message }
    } } }
  }
}
"""


@scenario(
    Key(name="list_first_100_s", what="first 100 of 10,000 pending", reach="<= 0.015"),
    Key(name="rss_10k_bytes", what="server memory, 10,000 pending", reach="<= 262144000"),
    Key(name="restart_s", what="10,000 pending and 64 running, until it answers", reach="<= 1.5"),
)
async def full_queue() -> dict[str, float]:
    """The restart is timed from the start of the new process."""
    async with cluster() as server:
        return await _measured(server)


@scenario(
    Key(name="list_first_100_s_pg", what="first 100 of 10,000 pending, on PostgreSQL", reach="<= 0.015"),
    Key(name="rss_10k_bytes_pg", what="server memory, 10,000 pending, on PostgreSQL", reach="<= 262144000"),
    Key(name="restart_s_pg", what="10,000 pending and 64 running on PostgreSQL, until it answers", reach="<= 1.5"),
)
async def full_queue_on_postgresql() -> dict[str, float]:
    """As above; the database stays up."""
    async with cluster_on_postgresql() as server:
        return as_twins(await _measured(server))


async def _measured(server: OwnServer) -> dict[str, float]:
    await occupy(server)
    bodies = (creation(argv=["true"], run="pending", name=f"job {number}") for number in range(PENDING))
    await submit(server, bodies, clients=64)
    async with Connection(server.port, server.token) as connection:
        list_s = await _list_s(connection)
    rss = _rss_bytes(server.pid)
    await server.stop()
    began = time.perf_counter()
    await server.start()
    restart_s = time.perf_counter() - began
    async with Connection(server.port, server.token) as connection:
        assert await count(connection, run="pending") == PENDING
        assert await count(connection, run="occupy", states=["running"]) == 64
    return {"list_first_100_s": list_s, "rss_10k_bytes": rss, "restart_s": restart_s}


async def _list_s(connection: Connection) -> float:
    body = request(FIRST_100)
    assert (await connection.ask(FIRST_100))["queue"]["total_count"] == PENDING
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await connection.post(body)
        took.append(time.perf_counter() - began)
    return median(took)


def _rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory")
