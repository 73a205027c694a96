"""Event streams: the limit per user, and keys that end while a client does not read."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import httpx
import pytest
from starlette.types import Message

from aliquot.api.graphql.endpoint import EventStream
from api_server import BEARER, api_server

pytestmark = pytest.mark.anyio


async def test_revoking_access_of_a_client_that_does_not_read_is_no_error() -> None:
    blocked = asyncio.Event()
    ends: list[Callable[[], None]] = []

    async def pieces() -> AsyncGenerator[str, None]:
        while True:
            yield "data: 1\n\n"

    @contextmanager
    def holding(end: Callable[[], None]) -> Iterator[None]:
        ends.append(end)
        yield

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            blocked.set()
            await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    stream = EventStream(pieces(), holding=holding, headers={}, slow_client_s=0.2)
    answering = asyncio.create_task(stream({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send))
    await blocked.wait()
    ends[0]()
    await asyncio.wait_for(answering, 60)


def streaming(port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60)


async def test_event_streams_per_user_are_limited() -> None:
    body = {"query": "subscription { queue_updates { event_number } }"}
    headers = BEARER | {"accept": "text/event-stream"}
    async with api_server(streams_per_user=2) as server, streaming(server.port) as client:
        async with AsyncExitStack() as stack:
            for _ in range(2):
                stream = client.stream("POST", "/graphql", json=body, headers=headers)
                assert (await stack.enter_async_context(stream)).status_code == 200
            refused = await client.post("/graphql", json=body, headers=headers)
            assert refused.status_code == 429
            assert refused.json()["errors"][0]["extensions"]["code"] == "too_many_streams"
        async with asyncio.timeout(60):
            while True:  # until the server has noticed that both are closed
                async with client.stream("POST", "/graphql", json=body, headers=headers) as answer:
                    if answer.status_code == 200:
                        break
