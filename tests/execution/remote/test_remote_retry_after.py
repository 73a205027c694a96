"""A busy server sends Retry-After, and the agent waits that long."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from aliquot.execution.remote.dialing import AGAIN_S_MAX, Unreachable, dialled, server_address
from aliquot_schema.ids import AgentId

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def busy(**headers: str) -> AsyncIterator[str]:
    """The URL of a server that answers each connection with 503."""

    def refuse(connection: ServerConnection, request: Request) -> Response:
        response = connection.respond(503, "many agents connect at once")  # type: ignore[arg-type]  # a number will do
        for name, value in headers.items():
            response.headers[name.replace("_", "-")] = value
        return response

    async def never(connection: ServerConnection) -> None:
        raise AssertionError("no connection is accepted")

    async with serve(never, "127.0.0.1", 0, process_request=refuse) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def asked_to_wait_s(url: str) -> float:
    with pytest.raises(Unreachable, match="many agents connect at once") as raised:
        async with dialled(server_address(url), agent_id=AgentId("a"), key="key"):
            pass
    return raised.value.again_s


@pytest.mark.parametrize(
    ("told", "waits_s"),
    [("7", 7.0), ("900", AGAIN_S_MAX), ("-3", 0.0), ("soon", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)],
)
async def test_an_agent_waits_for_the_retry_after_time_and_at_most_a_minute(told: str, waits_s: float) -> None:
    async with busy(Retry_After=told) as url:
        assert await asked_to_wait_s(url) == waits_s


async def test_without_retry_after_an_agent_uses_its_own_backoff() -> None:
    async with busy() as url:
        assert await asked_to_wait_s(url) == 0.0
