"""The npm clients graphql-ws (WebSockets) and graphql-sse (event streams), run in Node."""

import asyncio
from typing import Final

import pytest

import api_views as views
from api_node import KINDS, WAIT_S, following
from api_server import TOKEN, ApiServer

pytestmark = pytest.mark.anyio

UPDATES: Final = "subscription ($after: BigInt) { queue_updates(after: $after) { event_number session { id } } }"


@pytest.mark.parametrize("kind", KINDS)
async def test_npm_clients_resume_after_a_number_follow_live_and_unsubscribe(server: ApiServer, kind: str) -> None:
    for _ in range(3):
        await server.cluster.publish(views.session(1), "session.queued")
    async with following((server.port, TOKEN), kind, UPDATES, count=5, after=42) as client:
        assert [await client.number() for _ in range(2)] == [43, 44]
        for number in (45, 46, 47):
            await server.cluster.publish(views.session(1), "session.queued")
            assert await client.number() == number
        assert await client.line() == {"ended": True}
        await asyncio.wait_for(server.watcher.closed.wait(), WAIT_S)


@pytest.mark.parametrize("kind", KINDS)
async def test_npm_clients_see_the_end_of_a_subscription(server: ApiServer, kind: str) -> None:
    logs = 'subscription { session_logs(id: "ses_1") { text at_end } }'
    async with following((server.port, TOKEN), kind, logs, count=9) as client:
        texts = [(await client.line())["data"]["session_logs"]["text"] for _ in range(2)]
        assert texts == ["one\n", "two\n"]
        assert await client.line() == {"ended": True}


@pytest.mark.parametrize("kind", KINDS)
async def test_npm_clients_receive_subscription_errors(server: ApiServer, kind: str) -> None:
    async with following((server.port, TOKEN), kind, UPDATES, count=9, after=99) as client:
        [error] = (await client.line())["errors"]
        assert error["extensions"]["code"] == "invalid_request"
        assert await client.line() == {"ended": True}


@pytest.mark.parametrize("kind", KINDS)
async def test_npm_clients_receive_validation_errors(server: ApiServer, kind: str) -> None:
    async with following((server.port, TOKEN), kind, "subscription { nothing }", count=1) as client:
        found = await client.line()
        [error] = found.get("refused") or found["errors"]
        assert "nothing" in error["message"]


async def test_both_npm_clients_receive_the_same_events(server: ApiServer) -> None:
    async with (
        following((server.port, TOKEN), "ws", UPDATES, count=20, after=41) as one,
        following((server.port, TOKEN), "sse", UPDATES, count=20, after=41) as other,
    ):
        for _ in range(20):
            await server.cluster.publish(views.session(1), "session.queued")
        expected = list(range(42, 62))
        assert [await one.number() for _ in range(20)] == expected
        assert [await other.number() for _ in range(20)] == expected
