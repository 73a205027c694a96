"""The npm clients graphql-ws and graphql-sse, each in a Node process of its own."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from machine_lacks import DASHBOARD, node_with

SCRIPT: Final = Path(__file__).parents[1] / "api" / "graphql_clients.mjs"
WAIT_S: Final = 120
KINDS: Final = ("ws", "sse")


class NodeClient:
    """One client in its own process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        """Its next output line."""
        assert self._process.stdout is not None
        text = await asyncio.wait_for(self._process.stdout.readline(), WAIT_S)
        assert text, "it ended without a word"
        found: dict[str, Any] = json.loads(text)
        return found

    async def item(self) -> dict[str, Any]:
        """The next item received."""
        [item] = (await self.line())["data"].values()
        found: dict[str, Any] = item
        return found

    async def number(self) -> int:
        """The next event's number."""
        number: int = (await self.line())["data"]["queue_updates"]["event_number"]
        return number


@asynccontextmanager
async def following(
    place: tuple[int, str], kind: str, query: str, *, count: int, **variables: Any
) -> AsyncIterator[NodeClient]:
    """Start a client that takes a number of results.

    Args:
        place: the server's port, and a token or key.
    """
    port, token = place
    node = node_with("graphql-sse")
    payload = json.dumps({"query": query, "variables": variables})
    arguments = [DASHBOARD / "package.json", kind, str(port), token, str(count), payload]
    process = await asyncio.create_subprocess_exec(node, SCRIPT, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        yield NodeClient(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
