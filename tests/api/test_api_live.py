"""Live subscriptions to one session, all devices and the event log, by all roles and the npm clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

import httpx
import pytest
from strawberry.http.streaming import SSETransport
from websockets.asyncio.client import ClientConnection, connect

from aliquot.api.graphql import endpoint
from aliquot.api.graphql.shared_subscriptions import SubscriptionSource
from aliquot.api.graphql.sockets import KEY_ENDED
from aliquot.service.subscriptions import watching as live_watching
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.ids import AgentId, SessionId, kernel_id
from aliquot_schema.resources.devices import DeviceReading
from api_node import KINDS, WAIT_S, following
from api_server import SUBPROTOCOL, closing_code, receive, sign_in, subscribe
from authorisation_server import ADMIN, AGENT, OTHER, AuthorisationServer, authorisation_server

pytestmark = pytest.mark.anyio

SESSION: Final = """subscription ($id: ID!, $after: BigInt) { session_updates(id: $id, after: $after) {
  event_number kind is_snapshot session { id state kernels { state } } kernel { state exit_code } } }"""
DEVICES: Final = """subscription ($after: BigInt) { device_updates(after: $after) {
  number is_snapshot agents { agent_id gpu_alloc_map devices { id used utilization_pct holders { session_id } } } } }"""
EVENTS: Final = (
    """subscription ($after: BigInt, $kinds: [String!]) { events(after: $after, kinds: $kinds) { number } }"""
)


@pytest.fixture(scope="module")
async def server(anyio_backend: object) -> AsyncIterator[AuthorisationServer]:
    async with authorisation_server() as found:
        yield found


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all encoded items."""
    found: list[int] = []
    original = SubscriptionSource._encoded

    async def counting(self: SubscriptionSource, executor: Any) -> str:
        text = await original(self, executor)
        found.append(len(text))
        return text

    monkeypatch.setattr(SubscriptionSource, "_encoded", counting)
    return found


def port(server: AuthorisationServer) -> int:
    return int(server.url.rpartition(":")[2])


@asynccontextmanager
async def socket_of(server: AuthorisationServer, secret: str) -> AsyncIterator[ClientConnection]:
    """A signed-in WebSocket."""
    async with connect(f"ws://127.0.0.1:{port(server)}/graphql", subprotocols=[SUBPROTOCOL]) as socket:  # type: ignore[list-item]  # a name
        await sign_in(socket, {"token": secret})
        yield socket


async def next_item(socket: ClientConnection) -> dict[str, Any]:
    """The next item."""
    message = await receive(socket)
    assert "errors" not in message["payload"], message
    [item] = message["payload"]["data"].values()
    return dict(item)


async def measure(server: AuthorisationServer, percent: float) -> None:
    """Set the utilization of all devices."""
    devices = server.stage.state.agents[AgentId(AGENT)].devices
    readings = tuple(DeviceReading(device_id=device.id, utilization_pct=percent) for device in devices)
    await server.stage.on_event(NewReadings(agent_id=AgentId(AGENT), at_us=1, readings=readings))


async def end(server: AuthorisationServer, session_id: str, *, code: int) -> None:
    """End a running one-kernel session."""
    server.stage.executor.end_kernel(kernel_id(SessionId(session_id), attempt=1, rank=0), code=code)
    await server.stage.settle()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_subscription_sends_a_snapshot_and_then_changes(server: AuthorisationServer, kind: str) -> None:
    session_id = await server.session_of(OTHER, held=False, slots=[("cuda.shares", "0.01")])
    _, secret = await server.key_of(OTHER)
    async with following((port(server), secret), kind, SESSION, count=7, id=session_id) as client:
        first = await client.item()
        assert (first["kind"], first["is_snapshot"], first["session"]["state"]) == ("snapshot", True, "queued")
        await server.stage.advance()
        await end(server, session_id, code=3)
        found = [await client.item() for _ in range(6)]
        assert await client.line() == {"ended": True}
    numbers = [item["event_number"] for item in found]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > first["event_number"]
    states = [(item["kind"], item["session"]["state"]) for item in found if item["kernel"] is None]
    assert ("session.scheduled", "scheduled") in states
    assert {"granted", "starting", "running"} & {item["kernel"]["state"] for item in found if item["kernel"]}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_device_subscription_sends_a_snapshot_and_then_changes(server: AuthorisationServer, kind: str) -> None:
    await measure(server, 1.0)
    _, secret = await server.key_of("viewer")
    async with following((port(server), secret), kind, DEVICES, count=3) as client:
        first = await client.item()
        assert first["is_snapshot"]
        [agent] = first["agents"]
        assert len(agent["devices"]) == 4
        await measure(server, 2.0)
        changed = await client.item()
        assert not changed["is_snapshot"]
        assert {device["utilization_pct"] for device in changed["agents"][0]["devices"]} == {2.0}
        session_id = await server.session_of(OTHER, held=False, slots=[("cuda.shares", "0.03")])
        await server.stage.advance()
        granted = await client.item()
    [device] = granted["agents"][0]["devices"]
    assert session_id in {holder["session_id"] for holder in device["holders"]}
    assert granted["agents"][0]["gpu_alloc_map"] != agent["gpu_alloc_map"]
    await end(server, session_id, code=0)


async def test_a_device_subscription_resumes_after_a_known_number(server: AuthorisationServer) -> None:
    _, secret = await server.key_of("viewer")
    async with socket_of(server, secret) as socket:
        await subscribe(socket, DEVICES)
        known = (await next_item(socket))["number"]
    await measure(server, 33.0)
    await measure(server, 34.0)
    for after, is_snapshot in ((known, False), (known - 10**9, True), (known + 10**9, True)):
        async with socket_of(server, secret) as socket:
            await subscribe(socket, DEVICES, after=str(after))
            item = await next_item(socket)
            assert (item["is_snapshot"], item["number"] > known) == (is_snapshot, True)
            assert {device["utilization_pct"] for device in item["agents"][0]["devices"]} == {34.0}


async def test_device_updates_are_encoded_once_for_all_subscribers(
    server: AuthorisationServer, encoded: list[int]
) -> None:
    _, secret = await server.key_of("viewer")
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(socket_of(server, secret)) for _ in range(20)]
        for socket in sockets:
            await subscribe(socket, DEVICES)
        first = [(await next_item(socket))["number"] for socket in sockets]
        assert len(set(first)) == 1
        for percent in (51.0, 52.0, 53.0):
            await measure(server, percent)
            items = [await next_item(socket) for socket in sockets]
            assert len({item["number"] for item in items}) == 1
    assert len(encoded) == 4


async def test_device_updates_are_encoded_once_for_users_of_all_roles(
    server: AuthorisationServer, encoded: list[int]
) -> None:
    """It continues when the key that started it ends."""
    await measure(server, 60.0)
    await server.stage.watching._board.refresh()
    keys = [await server.key_of(user) for user in ("viewer", OTHER, "operator")]
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(socket_of(server, secret)) for _, secret in keys]
        for socket in sockets:
            await subscribe(socket, DEVICES)
            assert (await next_item(socket))["is_snapshot"]
        assert len(encoded) == 1
        await server.accounts.revoke_api_key(ADMIN, keys[0][0])
        assert await asyncio.wait_for(closing_code(sockets[0]), WAIT_S) == KEY_ENDED
        await measure(server, 61.0)
        for socket in sockets[1:]:
            assert (await next_item(socket))["agents"][0]["devices"][0]["utilization_pct"] == 61.0
    assert len(encoded) == 2


async def test_a_session_snapshot_is_not_shared_after_its_lifetime(
    server: AuthorisationServer, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_watching, "SNAPSHOT_S", 0.0)
    session_id = await server.session_of(OTHER)
    _, secret = await server.key_of(OTHER)
    async with socket_of(server, secret) as one, socket_of(server, secret) as other:
        for socket in (one, other):
            await subscribe(socket, SESSION, id=session_id)
            assert (await next_item(socket))["is_snapshot"]
    assert len(encoded) == 2


async def test_a_burst_of_device_changes_is_merged(server: AuthorisationServer) -> None:
    _, secret = await server.key_of("viewer")
    async with socket_of(server, secret) as socket:
        await subscribe(socket, DEVICES)
        await next_item(socket)
        for percent in range(100):
            await measure(server, float(percent))
        seen = []
        while not seen or seen[-1] != 99.0:
            seen.append((await next_item(socket))["agents"][0]["devices"][0]["utilization_pct"])
    assert len(seen) < 10


async def test_the_exit_code_of_a_kernel_is_hidden_from_other_users(server: AuthorisationServer) -> None:
    session_id = await server.session_of(OTHER, held=False, slots=[("cuda.shares", "0.01")])
    await server.stage.advance()
    codes = {}
    async with AsyncExitStack() as stack:
        sockets = {}
        for user in (OTHER, "user", "operator"):
            sockets[user] = await stack.enter_async_context(socket_of(server, (await server.key_of(user))[1]))
            await subscribe(sockets[user], SESSION, id=session_id)
            await next_item(sockets[user])
        await end(server, session_id, code=3)
        for user, socket in sockets.items():
            while (item := await next_item(socket))["kernel"] is None or item["kernel"]["state"] != "exited":
                pass
            codes[user] = item["kernel"]["exit_code"]
    assert codes == {OTHER: 3, "user": None, "operator": 3}


@pytest.mark.parametrize("query", [SESSION, DEVICES, EVENTS], ids=["session", "devices", "events"])
async def test_revoking_a_key_ends_its_subscriptions(server: AuthorisationServer, query: str) -> None:
    # Only databases keep the audit record; this scene has none, and the socket still opens.
    key, secret = await server.key_of("operator")
    wanted = {"id": await server.session_of(OTHER)} if query is SESSION else {}
    async with socket_of(server, secret) as socket:
        await subscribe(socket, query, **wanted)
        await receive(socket)
        await server.accounts.revoke_api_key(ADMIN, key)
        assert await asyncio.wait_for(closing_code(socket), WAIT_S) == KEY_ENDED


async def test_a_silent_event_stream_ends_when_its_key_is_revoked(
    server: AuthorisationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "SSETransport", partial(SSETransport, 3600))
    key, secret = await server.key_of("viewer")
    headers = {"authorization": f"Bearer {secret}", "accept": "text/event-stream"}
    body = {"query": "subscription { queue_updates { event_number } }"}
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
        client.stream("POST", "/graphql", json=body, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        await server.accounts.revoke_api_key(ADMIN, key)
        assert await asyncio.wait_for(answer.aread(), WAIT_S) == b""


async def test_subscribing_to_an_unknown_session_returns_not_found(server: AuthorisationServer) -> None:
    _, secret = await server.key_of("viewer")
    async with socket_of(server, secret) as socket:
        await subscribe(socket, SESSION, id="ses_none")
        [error] = (await receive(socket))["payload"]["errors"]
        assert error["extensions"]["code"] == "not_found"
