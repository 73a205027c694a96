"""A client's copy of a session and of all devices: a snapshot, then changes by subscription."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client
from api_server import SUBPROTOCOL, receive, send, sign_in

SESSION: Final = """
  id version state priority name owner attempt retry_count held_by queued_at scheduled_at started_at ended_at exit_code
"""
KERNEL: Final = "id state started_at ended_at exit_code signal message"
SESSION_POLL: Final = f"""query ($ids: [ID!]) {{ sessions(filter: {{ ids: $ids }}) {{
  revision edges {{ node {{ {SESSION} kernels {{ {KERNEL} }} }} }} }} }}"""
SESSION_FOLLOW: Final = f"""subscription ($id: ID!, $after: BigInt) {{ session_updates(id: $id, after: $after) {{
  number: event_number kind is_snapshot session {{ {SESSION} kernels {{ {KERNEL} }} }} kernel {{ {KERNEL} }} }} }}"""
DEVICE: Final = "id health used free foreign_usage holders { session_id share until }"
DEVICES_POLL: Final = (
    f"{{ agents(first: 100) {{ revision edges {{ node {{ id gpu_alloc_map devices {{ {DEVICE} }} }} }} }} }}"
)
DEVICES_FOLLOW: Final = f"""subscription ($after: BigInt) {{ device_updates(after: $after) {{
  number revision is_snapshot agents_gone
  agents {{ agent_id gpu_alloc_map devices_gone devices {{ {DEVICE} }} }} }} }}"""
EVENTS_FOLLOW: Final = """subscription ($after: BigInt, $kinds: [String!]) { events(after: $after, kinds: $kinds) {
  number at kind entity_id actor fields { name before after } } }"""
AUDIT: Final = """query ($after: String) { audit(first: 100, after: $after) {
  edges { node { number at kind entity_id actor fields { name before after } } } pageInfo { endCursor } } }"""
AUDIT_PAGES: Final = 3
WAIT_S: Final = 120.0

Devices = dict[str, tuple[str, dict[str, Any]]]
"""By agent: allocation map, devices by id."""


async def poll_session(client: Client, session_id: str) -> tuple[int, dict[str, Any]]:
    """A session, and its revision."""
    found = (await client.execute(SESSION_POLL, {"ids": [session_id]}))["sessions"]
    [edge] = found["edges"]
    return found["revision"], edge["node"]


async def poll_devices(client: Client) -> tuple[int, Devices]:
    """All devices, and their revision."""
    found = (await client.execute(DEVICES_POLL))["agents"]
    nodes = [edge["node"] for edge in found["edges"]]
    known = {node["id"]: (node["gpu_alloc_map"], {item["id"]: item for item in node["devices"]}) for node in nodes}
    return found["revision"], known


async def audit_entries(client: Client) -> list[dict[str, Any]]:
    """The newest audit entries."""
    found, after = [], None
    for _ in range(AUDIT_PAGES):
        page = (await client.execute(AUDIT, {"after": after}))["audit"]
        found += [edge["node"] for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
    return found


class Runnable(Protocol):
    """Follows until canceled."""

    async def run(self) -> None: ...


@asynccontextmanager
async def running_followers(*followers: Runnable) -> AsyncIterator[None]:
    """Run followers, and raise failures at the end."""
    tasks = [asyncio.create_task(follower.run()) for follower in followers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), ended


class LiveFollower:
    """Follows a subscription at each server in turn, resumes from its last number, and keeps the updates."""

    def __init__(self, servers: Sequence[OwnServer], query: str, **variables: Any) -> None:
        self._servers = servers
        self._query = query
        self._variables = variables
        self._news = asyncio.Event()
        self.updates: list[dict[str, Any]] = []
        self.connections = 0

    async def run(self) -> None:
        """Follow and reconnect until canceled."""
        turn = 0
        while True:
            with suppress(OSError, WebSocketException, TimeoutError):
                await self._follow(self._servers[turn % len(self._servers)])
            turn += 1
            await asyncio.sleep(0.05)

    async def wait_for_updates(self, is_fact: Callable[[list[dict[str, Any]]], object]) -> None:
        """Wait until a condition holds for the updates."""
        async with asyncio.timeout(WAIT_S):
            while not is_fact(self.updates):
                self._news.clear()
                await self._news.wait()

    async def _follow(self, server: OwnServer) -> None:
        async with connect(
            f"ws://127.0.0.1:{server.port}/graphql", subprotocols=[SUBPROTOCOL], max_size=None
        ) as socket:
            await sign_in(socket, {"token": server.token})
            await send(socket, {"id": "1", "type": "subscribe", "payload": self._payload()})
            self.connections += 1
            while (message := await self._next(socket))["type"] == "next":
                [update] = message["payload"]["data"].values()
                self.updates.append(update)
                self._news.set()

    async def _next(self, socket: Any) -> dict[str, Any]:
        async with asyncio.timeout(WAIT_S):
            message = await receive(socket)
        assert "errors" not in message.get("payload", {}), message
        return message

    def _payload(self) -> dict[str, Any]:
        known = {"after": self.updates[-1]["number"]} if self.updates else {}
        return {"query": self._query, "variables": self._variables | known}


def session_at(updates: Sequence[dict[str, Any]], revision: int) -> dict[str, Any]:
    """A session's state by updates up to a revision: its own fields, and its kernels' by their ids."""
    found: dict[str, Any] = {}
    kernels: dict[str, Any] = {}
    for update in updates:
        if update["number"] > revision:
            break
        if update["is_snapshot"]:
            kernels = {kernel["id"]: kernel for kernel in update["session"]["kernels"]}
        if update["kernel"] is not None:
            kernels[update["kernel"]["id"]] = update["kernel"]
        else:
            found = {name: value for name, value in update["session"].items() if name != "kernels"}
    newest = f"{found['id']}.{found['attempt']}."
    return found | {"kernels": [kernel for name, kernel in sorted(kernels.items()) if name.startswith(newest)]}


def devices_after(updates: Sequence[dict[str, Any]]) -> Devices:
    """The state of all devices by updates."""
    known: Devices = {}
    for update in updates:
        known = {} if update["is_snapshot"] else {k: v for k, v in known.items() if k not in update["agents_gone"]}
        for one in update["agents"]:
            before = known.get(one["agent_id"], ("", {}))[1]
            kept = {name: device for name, device in before.items() if name not in one["devices_gone"]}
            fresh = {device["id"]: device for device in one["devices"]}
            known[one["agent_id"]] = (one["gpu_alloc_map"], kept | fresh)
    return known
