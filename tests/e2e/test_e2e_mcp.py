"""`aliquot mcp` with a real MCP client, over stdio and over HTTP."""

import json
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from aliquot.cli.acceptance.cluster_view import until_joined
from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client import Client as ServerClient
from aliquot.client.generated.accounts import CreateApiKeyInput, CreateUserInput
from aliquot.client.generated.audit import AuditFilterInput
from aliquot.client.generated.enums import KeyScope, Role

ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"
pytestmark = pytest.mark.anyio

MCP = (sys.executable, "-m", "aliquot", "mcp")
TOOLS = {"gpus", "queue", "sessions", "why", "submit", "logs", "wait", "cancel", "reserve", "usage"}


@pytest.fixture
async def two_gpus(anyio_backend: str) -> AsyncIterator[OwnServer]:
    """Two mock GPUs; jobs of all users run as one account."""
    async with OwnServer("--single-trust-domain", "--accelerators", str(ACCELERATORS / "two_gpus.toml")) as server:
        async with server.client() as client:
            await until_joined(client, agents=1)
        yield server


@asynccontextmanager
async def _over_stdio(server: OwnServer, key: str) -> AsyncIterator[Client]:
    environment = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN": key, "HOME": str(server.folder)}
    async with Client(StdioServerParameters(command=MCP[0], args=list(MCP[1:]), env=environment)) as client:
        yield client


@asynccontextmanager
async def _http_server(server: OwnServer) -> AsyncIterator[str]:
    """The address of an MCP server in its own process, which has no key."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"ALIQUOT_SERVER": server.url, "ALIQUOT_TOKEN": "none", "HOME": str(server.folder)}
    process = await anyio.open_process([*MCP, "--http", str(port)], env=environment, stdout=None, stderr=None)
    try:
        with anyio.fail_after(60):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    assert process.returncode is None
                    await anyio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _over_http(url: str, key: str | None) -> AsyncIterator[Client]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def _key(server: OwnServer, user: str, scope: KeyScope, **more: Any) -> str:
    async with ServerClient(server.url, server.token) as admin:
        if user not in {known.name for known in await admin.users()}:
            await admin.create_user(CreateUserInput(name=user, role=Role.USER))
        made = await admin.create_api_key(CreateApiKeyInput(user=user, name="lab-bot", scope=scope, **more))
        return made.secret


async def _keys_in_audit(server: OwnServer, user: str) -> set[str | None]:
    """Names of the keys used for a user's changes."""
    async with ServerClient(server.url, server.token) as admin:
        found = await admin.audit(filter=AuditFilterInput(actor=user), first=50)
    assert {edge.node.actor for edge in found.edges} == {user}
    return {edge.node.api_key for edge in found.edges}


async def _called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    found: dict[str, Any] = json.loads(content.text)
    return found


async def _refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def _course(client: Client) -> None:
    """A typical client: look, dry run, submit, follow, cancel."""
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
    (node,) = (await _called(client, "gpus"))["nodes"]
    assert [gpu["free"] for gpu in node["gpus"]] == [1, 1]
    tried = await _called(client, "submit", command="true", gpus=0.5, dry_run=True)
    assert tried["starts_now"]
    assert (await _called(client, "sessions"))["sessions"] == []
    made = await _called(client, "submit", command="echo $GREETING", gpus=0.5, environment={"GREETING": "hello"})
    ended = await _called(client, "wait", id=made["id"])
    assert (ended["has_ended"], ended["state"], ended["exit_code"]) == (True, "completed", 0)
    assert (await _called(client, "logs", id=made["id"]))["text"] == "hello\n"
    big = await _called(client, "submit", command="sleep 600", gpus=2)
    late = await _called(client, "submit", command="true", gpus=1)
    assert not (await _called(client, "wait", id=big["id"], timeout_s=1))["has_ended"]
    why = await _called(client, "why", id=late["id"])
    assert why["waits_for"] == [big["id"]]
    assert [one["id"] for one in (await _called(client, "queue"))["waiting"]] == [late["id"]]
    assert (await _called(client, "cancel", id=big["id"]))["state"] in ("terminating", "canceled")
    assert (await _called(client, "wait", id=late["id"]))["state"] == "completed"
    starts_at = datetime.fromtimestamp(time.time(), UTC) + timedelta(hours=1)
    window = {"starts_at": starts_at.isoformat(), "hours": 2}
    booked = await _called(client, "reserve", name="demo", gpus=2, **window)
    assert (booked["state"], len(booked["gpus"])) == ("booked", 2)
    assert "in the way: demo of anna" in (await _refusal(client, "reserve", name="other", **window)).lower()
    late = {"starts_at": "9999-12-31T23:00:00Z", "hours": 2}
    assert "after the year 9999" in await _refusal(client, "reserve", name="late", **late)
    usage = await _called(client, "usage")
    assert (usage["me"]["name"], usage["key"]["name"]) == ("anna", "lab-bot")


async def test_an_mcp_client_uses_the_cluster_over_stdio(two_gpus: OwnServer) -> None:
    async with _over_stdio(two_gpus, await _key(two_gpus, "anna", KeyScope.SUBMIT)) as client:
        await _course(client)


async def test_an_mcp_client_uses_the_cluster_over_http_with_the_key_of_each_request(two_gpus: OwnServer) -> None:
    writes, reads = [await _key(two_gpus, "anna", scope) for scope in (KeyScope.SUBMIT, KeyScope.READ)]
    async with _http_server(two_gpus) as url:
        async with _over_http(url, writes) as client:
            await _course(client)
        assert await _keys_in_audit(two_gpus, "anna") == {"lab-bot"}
        async with _over_http(url, reads) as client:
            assert len((await _called(client, "gpus"))["nodes"]) == 1
            assert "Forbidden" in await _refusal(client, "submit", command="true")
        async with _over_http(url, None) as client:
            assert "no API key" in await _refusal(client, "gpus")
        async with _over_http(url, "wrong") as client:
            assert "does not accept this token" in await _refusal(client, "gpus")


async def _within_budget(client: Client) -> None:
    """Each request needs a preview first, and the third session is refused."""
    for number in range(2):
        told = await _refusal(client, "submit", command="true", name=f"n{number}")
        assert "then submit it within 10 minutes" in told
        await _called(client, "submit", command="true", name=f"n{number}", dry_run=True)
        made = await _called(client, "submit", command="true", name=f"n{number}")
        assert (await _called(client, "wait", id=made["id"]))["state"] == "completed"
    await _called(client, "submit", command="true", dry_run=True)
    assert "has 0 left and needs 1" in await _refusal(client, "submit", command="true")
    key = (await _called(client, "usage"))["key"]
    assert (key["submitted"], key["sessions_max"], key["dry_run_first"]) == (2, 2, True)


async def test_a_key_with_a_budget_requires_a_dry_run_and_is_limited_over_both_transports(two_gpus: OwnServer) -> None:
    limits = {"sessions_max": 2, "gpu_hours_max": 1.0, "dry_run_first": True}
    async with _over_stdio(two_gpus, await _key(two_gpus, "anna", KeyScope.SUBMIT, **limits)) as client:
        await _within_budget(client)
    key = await _key(two_gpus, "anna", KeyScope.SUBMIT, **limits)
    async with _http_server(two_gpus) as url, _over_http(url, key) as client:
        await _within_budget(client)
    key = await _key(two_gpus, "anna", KeyScope.SUBMIT, gpu_hours_max=1e-6)
    async with _over_stdio(two_gpus, key) as client:
        first = await _called(client, "submit", command="sleep 1", gpus=1)
        await _called(client, "wait", id=first["id"])
        assert "GPU-hours; it has used" in await _refusal(client, "submit", command="true")


async def test_a_refusal_has_the_message_of_the_server(two_gpus: OwnServer) -> None:
    async with _over_stdio(two_gpus, await _key(two_gpus, "anna", KeyScope.SUBMIT)) as client:
        assert "no node has" in (told := await _refusal(client, "submit", command="true", gpus=64)) or "largest" in told
        assert "there is no session" in await _refusal(client, "why", id="ses_none")
