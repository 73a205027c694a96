"""A server with 10,000 or 90,000 sessions pending and 64 running: its memory, lists and restart time; and with none.

SQLite runs in the server's own process; PostgreSQL's processes are not counted.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cluster import batch, cluster, count, occupy, submit
from http_load import Connection, request
from postgresql import as_twins, cluster_on_postgresql
from registry import Key, scenario

from aliquot.cli.acceptance.processes import OwnServer

PENDING = 10_000
LONG = 90_000
BATCH = 1000
STARTS = 5
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
        return (await _measured(server, pending=PENDING)).by_key()


@scenario(
    Key(name="list_first_100_90k_s", what="first 100 of 90,000 pending", reach="<= 0.005"),
    Key(name="rss_90k_bytes", what="server memory, 90,000 pending", reach="<= 300000000"),
    Key(name="restart_90k_s", what="90,000 pending and 64 running, until it answers", reach="<= 1.5"),
)
async def long_queue() -> dict[str, float]:
    """As above."""
    async with cluster() as server:
        found = await _measured(server, pending=LONG)
    return {
        "list_first_100_90k_s": found.list_s,
        "rss_90k_bytes": found.rss_bytes,
        "restart_90k_s": found.restart_s,
    }


@scenario(Key(name="start_s", what="start with nothing to load, until it answers, median", reach="<= 0.5"))
async def start() -> dict[str, float]:
    """On a data folder that exists; Python's files are compiled."""
    async with cluster() as server:
        return {"start_s": median([await _restart_s(server) for _ in range(STARTS)])}


@scenario(
    Key(name="list_first_100_s_pg", what="first 100 of 10,000 pending, on PostgreSQL", reach="<= 0.015"),
    Key(name="rss_10k_bytes_pg", what="server memory, 10,000 pending, on PostgreSQL", reach="<= 262144000"),
    Key(name="restart_s_pg", what="10,000 pending and 64 running on PostgreSQL, until it answers", reach="<= 1.5"),
)
async def full_queue_on_postgresql() -> dict[str, float]:
    """As above; the database stays up."""
    async with cluster_on_postgresql() as server:
        return as_twins((await _measured(server, pending=PENDING)).by_key())


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured."""

    list_s: float
    rss_bytes: int
    restart_s: float

    def by_key(self) -> dict[str, float]:
        """The figures of 10,000 pending."""
        return {"list_first_100_s": self.list_s, "rss_10k_bytes": self.rss_bytes, "restart_s": self.restart_s}


async def _measured(server: OwnServer, *, pending: int) -> Found:
    await occupy(server)
    bodies = (batch(run="pending", first=first, count=BATCH) for first in range(0, pending, BATCH))
    await submit(server, bodies, clients=1)
    async with Connection(server.port, server.token) as connection:
        list_s = await _list_s(connection, pending=pending)
    rss_bytes = _rss_bytes(server.pid)
    restart_s = await _restart_s(server)
    async with Connection(server.port, server.token) as connection:
        assert await count(connection, run="pending") == pending
        assert await count(connection, run="occupy", states=["running"]) == 64
    return Found(list_s=list_s, rss_bytes=rss_bytes, restart_s=restart_s)


async def _restart_s(server: OwnServer) -> float:
    await server.stop()
    began = time.perf_counter()
    await server.start()
    return time.perf_counter() - began


async def _list_s(connection: Connection, *, pending: int) -> float:
    body = request(FIRST_100)
    assert (await connection.ask(FIRST_100))["queue"]["total_count"] == pending
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
