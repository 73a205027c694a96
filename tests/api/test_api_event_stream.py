"""A stream of events whose client does not read, when the rights end with which it was asked for."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager

import pytest
from starlette.types import Message

from aliquot.api.event_stream import EventStream

pytestmark = pytest.mark.anyio


async def test_the_end_of_rights_of_who_does_not_read_is_no_fault() -> None:
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
