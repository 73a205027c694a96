"""Subscribers of the queue: CPU cost and delay of one event for each, and how many are possible."""

import asyncio
import sys
import time
from typing import Final

from cluster import creation, percentile
from http_load import Connection
from registry import Key, scenario
from served import Served
from websocket_load import Socket, connected

from aliquot.cli.acceptance.processes import OwnServer

FOLLOWERS: Final = 1000
EVENTS: Final = 40
HELD: Final = 5000
TOGETHER: Final = 50
"""Number of concurrent connection attempts."""
WAIT_S_MAX: Final = 120.0

REVISION: Final = "{ queue(first: 1) { revision edges { node { session { id } } } } }"
FOLLOW: Final = """
subscription ($after: BigInt) {
  queue_updates(after: $after) {
    event_number at kind pending
    session { id owner name state priority cluster_size queued_at started_at slots { slot amount } }
  }
}
"""
CHANGE: Final = """
mutation ($id: ID!, $priority: Priority!) {
  update_session_priority(input: { id: $id, priority: $priority }) { __typename }
}
"""


@scenario(
    Key(name="sub_cpu_us", what="1,000 subscribers, one event: CPU per delivery, microseconds", reach="<= 40"),
    Key(name="sub_p99_s", what="1,000 subscribers: p99 from the change's request to a delivery", reach="<= 0.100"),
)
async def followers() -> dict[str, float]:
    """Includes the change itself: its request, its commit, and the server's work for it."""
    async with OwnServer("--no-local-agents", "--log-level=warning") as server:
        async with Connection(server.port, server.token) as connection:
            changes = await _Changes.begin(connection)
            sockets = await _follow(server, FOLLOWERS, after=changes.revision)
            late: list[float] = []
            await changes.make()
            await _until(sockets, 2)
            cpu_s = Served(server.pid, server.port).cpu_s()
            for number in range(EVENTS):
                began = time.perf_counter()
                await changes.make()
                await _until(sockets, 3 + number)
                late += [socket.messages[-1] - began for socket in sockets]
            cpu_s = Served(server.pid, server.port).cpu_s() - cpu_s
        _hang_up(sockets)
    return {"sub_cpu_us": cpu_s / (EVENTS * FOLLOWERS) * 1e6, "sub_p99_s": percentile(late, 0.99)}


@scenario(
    Key(name="sub_sockets_held", what="WebSockets open at one time, each given the next event", reach=">= 5000"),
)
async def held() -> dict[str, float]:
    """One server, one key."""
    async with OwnServer("--no-local-agents", "--log-level=warning") as server:
        async with Connection(server.port, server.token) as connection:
            changes = await _Changes.begin(connection)
        sockets = await _follow(server, HELD, after=changes.revision)
        # By now, the server would have closed the earlier connection.
        async with Connection(server.port, server.token) as connection:
            changes.connection = connection
            await changes.make()
            await _until(sockets, 2)
            rss = Served(server.pid, server.port).rss_bytes()
            print(f"  {rss / 2**20:.0f} MiB of memory", file=sys.stderr, flush=True)
        _hang_up(sockets)
    return {"sub_sockets_held": float(len(sockets))}


class _Changes:
    """One waiting session, whose priority goes up and down."""

    def __init__(self, connection: Connection, *, session_id: str, revision: int) -> None:
        self.connection = connection
        self._session_id = session_id
        self.revision = revision
        self._high = False

    @classmethod
    async def begin(cls, connection: Connection) -> "_Changes":
        await connection.post(creation(argv=["true"], run="followed"))
        queue = (await connection.ask(REVISION))["queue"]
        [edge] = queue["edges"]
        return cls(connection, session_id=edge["node"]["session"]["id"], revision=queue["revision"])

    async def make(self) -> None:
        """Change it once."""
        self._high = not self._high
        variables = {"id": self._session_id, "priority": "high" if self._high else "low"}
        await self.connection.ask(CHANGE, variables)


async def _follow(server: OwnServer, count: int, *, after: int) -> list[Socket]:
    sockets: list[Socket] = []

    async def join() -> None:
        socket = await connected(server.port)
        await socket.subscribe(server.token, FOLLOW, {"after": after})
        sockets.append(socket)

    while len(sockets) < count:
        async with asyncio.timeout(WAIT_S_MAX), asyncio.TaskGroup() as group:
            for _ in range(min(TOGETHER, count - len(sockets))):
                group.create_task(join())
    return sockets


async def _until(sockets: list[Socket], messages: int) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        for socket in sockets:
            await socket.until_messages(messages)


def _hang_up(sockets: list[Socket]) -> None:
    for socket in sockets:
        socket.close()
