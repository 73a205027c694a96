"""Connections: errors name the cause, and the client closes an idle connection, not the server."""

import asyncio
import socket

import httpx
import pytest

from aliquot.cli.listener import KEEP_ALIVE_S
from aliquot.client import Client, ServerUnreachable

pytestmark = pytest.mark.anyio


def test_the_server_keeps_an_idle_connection_longer_than_the_client_does() -> None:
    client_s = httpx.Limits().keepalive_expiry
    assert client_s is not None
    assert client_s * 2 < KEEP_ALIVE_S


async def test_a_connection_error_without_text_is_reported_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise httpx.ReadError("")

    monkeypatch.setattr(httpx.AsyncClient, "post", broken)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Client(url, "key") as client:
            with pytest.raises(ServerUnreachable, match="ReadError"):
                await client.execute("{ ping }")


def test_a_client_in_a_second_event_loop_says_what_to_do() -> None:
    answer = httpx.MockTransport(lambda _: httpx.Response(200, json={"data": {}}))
    client = Client("http://127.0.0.1:1", "token", transport=answer)
    assert asyncio.run(client.execute("{ __typename }")) == {}
    with pytest.raises(RuntimeError, match=r"make a new one in each `asyncio.run`, or use BlockingClient"):
        asyncio.run(client.execute("{ __typename }"))
    with pytest.raises(RuntimeError, match=r"make a new one in each `asyncio.run`"):
        asyncio.run(client.results("ses_1"))
