"""The clients that people use: graphql-ws over WebSockets, graphql-sse over event streams, both from npm, in Node."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import api_views as views
from api_server import TOKEN, ApiServer

pytestmark = pytest.mark.anyio

SCRIPT: Final = Path(__file__).with_name("graphql_clients.mjs")
DASHBOARD: Final = Path(__file__).parents[2] / "server" / "dashboard"
UPDATES: Final = "subscription ($after: BigInt) { queue_updates(after: $after) { event_number session { id } } }"
WAIT_S: Final = 120
KINDS: Final = ("ws", "sse")


class NodeClient:
    """One client in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        """The next thing that it prints."""
        assert self._process.stdout is not None
        text = await asyncio.wait_for(self._process.stdout.readline(), WAIT_S)
        assert text, "it ended without a word"
        found: dict[str, Any] = json.loads(text)
        return found

    async def number(self) -> int:
        """The number of the next event."""
        number: int = (await self.line())["data"]["queue_updates"]["event_number"]
        return number


@asynccontextmanager
async def following(
    server: ApiServer, kind: str, query: str, *, count: int, **variables: Any
) -> AsyncIterator[NodeClient]:
    """Start a client that takes so many results."""
    node = shutil.which("node")
    if node is None or not (DASHBOARD / "node_modules" / "graphql-sse").is_dir():
        pytest.skip("Node is not here, or what scripts/setup installs for it")
    payload = json.dumps({"query": query, "variables": variables})
    arguments = [DASHBOARD / "package.json", kind, str(server.port), TOKEN, str(count), payload]
    process = await asyncio.create_subprocess_exec(node, SCRIPT, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        yield NodeClient(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("kind", KINDS)
async def test_they_go_on_from_a_number_live_and_to_their_own_end(server: ApiServer, kind: str) -> None:
    for _ in range(3):
        await server.cluster.publish(views.session(1), "session.queued")
    async with following(server, kind, UPDATES, count=5, after=42) as client:
        assert [await client.number() for _ in range(2)] == [43, 44]
        for number in (45, 46, 47):
            await server.cluster.publish(views.session(1), "session.queued")
            assert await client.number() == number
        assert await client.line() == {"ended": True}
        await asyncio.wait_for(server.watcher.closed.wait(), WAIT_S)


@pytest.mark.parametrize("kind", KINDS)
async def test_they_are_told_when_there_is_no_more(server: ApiServer, kind: str) -> None:
    logs = 'subscription { session_logs(id: "ses_1") { text at_end } }'
    async with following(server, kind, logs, count=9) as client:
        texts = [(await client.line())["data"]["session_logs"]["text"] for _ in range(2)]
        assert texts == ["one\n", "two\n"]
        assert await client.line() == {"ended": True}


@pytest.mark.parametrize("kind", KINDS)
async def test_errors_of_what_is_asked_reach_them(server: ApiServer, kind: str) -> None:
    async with following(server, kind, UPDATES, count=9, after=99) as client:
        [error] = (await client.line())["errors"]
        assert error["extensions"]["code"] == "invalid_request"
        assert await client.line() == {"ended": True}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_not_valid_is_refused(server: ApiServer, kind: str) -> None:
    async with following(server, kind, "subscription { nothing }", count=1) as client:
        found = await client.line()
        [error] = found.get("refused") or found["errors"]
        assert "nothing" in error["message"]


async def test_both_are_given_one_and_the_same(server: ApiServer) -> None:
    async with (
        following(server, "ws", UPDATES, count=20, after=41) as one,
        following(server, "sse", UPDATES, count=20, after=41) as other,
    ):
        for _ in range(20):
            await server.cluster.publish(views.session(1), "session.queued")
        expected = list(range(42, 62))
        assert [await one.number() for _ in range(20)] == expected
        assert [await other.number() for _ in range(20)] == expected
