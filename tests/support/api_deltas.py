"""A client's copy of the queue: read once, then updated by a subscription, over lost connections."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from api_server import SUBPROTOCOL, receive, send, sign_in

SESSION: Final = """
  id version state priority name owner project cluster_size attempt retry_count held_by queued_at
  slots { slot amount } tags { name value } depends_on { session_id condition }
"""
POLL: Final = f"{{ queue(first: 100) {{ revision total_count edges {{ node {{ session {{ {SESSION} }} }} }} }} }}"
FOLLOW: Final = f"""subscription ($after: BigInt) {{
  queue_updates(after: $after) {{ event_number pending session {{ {SESSION} }} }}
}}"""
WAITING: Final = frozenset({"queued", "held"})
WAIT_S: Final = 120.0

Queue = dict[str, dict[str, Any]]


async def poll(client: Client) -> tuple[int, Queue]:
    """The queue by id, and its revision."""
    found = (await client.execute(POLL))["queue"]
    waiting = [edge["node"]["session"] for edge in found["edges"]]
    assert len(waiting) == found["total_count"]
    return found["revision"], {session["id"]: session for session in waiting}


class Follower:
    """Follows from a revision, at each server in turn, and keeps the updates received."""

    def __init__(self, servers: Sequence[OwnServer], *, revision: int, queue: Queue) -> None:
        self._servers = servers
        self._begun = queue
        self.updates: list[dict[str, Any]] = []
        self.connections = 0
        self._revision = revision
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Follow and reconnect until canceled."""
        turn = 0
        while True:
            with suppress(OSError, WebSocketException, TimeoutError, AssertionError):
                await self._follow(self._servers[turn % len(self._servers)])
            turn += 1
            await asyncio.sleep(0.05)

    async def wait_for_session(self, session_id: str) -> None:
        """Wait until a session was received."""
        async with asyncio.timeout(WAIT_S):
            while not self.updates or self.updates[-1]["session"]["id"] != session_id:
                self._news.clear()
                await self._news.wait()

    def queue_at(self, revision: int) -> Queue:
        """The queue, by updates up to a revision."""
        queue = dict(self._begun)
        for update in self.updates:
            if update["event_number"] <= revision:
                session = update["session"]
                queue.pop(session["id"], None)
                if session["state"] in WAITING:
                    queue[session["id"]] = session
        return queue

    async def _follow(self, server: OwnServer) -> None:
        async with connect(f"ws://127.0.0.1:{server.port}/graphql", subprotocols=[SUBPROTOCOL]) as socket:
            await sign_in(socket, {"token": server.token})
            payload = {"query": FOLLOW, "variables": {"after": self._revision}}
            await send(socket, {"id": "1", "type": "subscribe", "payload": payload})
            self.connections += 1
            while True:
                async with asyncio.timeout(WAIT_S):
                    message = await receive(socket)
                assert message["type"] == "next", message
                update = message["payload"]["data"]["queue_updates"]
                assert update["event_number"] > self._revision
                self._revision = update["event_number"]
                self.updates.append(update)
                self._news.set()
