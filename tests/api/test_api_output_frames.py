"""Output frames between servers: chunks arrive unchanged, however the stream is split."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.api.job_output import OUTPUTS_PATH, OutputPages, frame, unframed
from aliquot_schema.cluster.launching import OUTPUT_END, LogChunk
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import UserId
from api_server import TOKEN

AUTH = TokenAuth(TOKEN, UserId("ada"))
CHUNKS = st.lists(
    st.builds(LogChunk, offset=st.integers(0, OUTPUT_END), data=st.binary(max_size=20), at_end=st.booleans()),
    max_size=6,
)


@settings(deadline=None)
@given(CHUNKS, st.integers(1, 30))
def test_frames_are_decoded_wherever_the_stream_is_cut(chunks: list[LogChunk], size: int) -> None:
    sent = b"".join(map(frame, chunks))

    async def stream() -> AsyncIterator[bytes]:
        for begin in range(0, len(sent), size):
            yield sent[begin : begin + size]

    async def read() -> list[LogChunk]:
        return [chunk async for chunk in unframed(stream())]

    assert asyncio.run(read()) == chunks


CHUNK = LogChunk(offset=0, data=b"one\n", at_end=False)


@asynccontextmanager
async def answer_of(pieces: Callable[..., AsyncIterator[LogChunk]], open_connections: OpenConnections) -> Any:
    """The answer to another server that asks for an output."""
    outputs: Any = SimpleNamespace(follow_log=pieces)
    pages = OutputPages(outputs, auth=AUTH, open_connections=open_connections)
    transport = httpx.ASGITransport(Starlette(routes=[Route(OUTPUTS_PATH, pages.stream)]))
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        yield await client.get(OUTPUTS_PATH, params={"agent_id": "demo-1", "kernel_id": "krn_1"})


@pytest.mark.anyio
async def test_the_output_of_a_lost_agent_ends_early_and_without_an_error() -> None:
    async def follow_log(*_: object, **__: object) -> AsyncIterator[LogChunk]:
        yield CHUNK
        raise Unavailable("agent demo-1 is no longer connected to this server")

    async with answer_of(follow_log, OpenConnections(AUTH)) as answer:
        assert [found async for found in unframed(answer.aiter_bytes())] == [CHUNK]


@pytest.mark.anyio
@pytest.mark.parametrize("is_late", [False, True])
async def test_a_server_that_stops_ends_the_outputs_that_others_read(is_late: bool) -> None:
    """Others go on at the next leader. Also an output that is asked for at the last moment ends."""
    open_connections = OpenConnections(AUTH)
    if is_late:
        open_connections.stop()

    async def follow_log(*_: object, **__: object) -> AsyncIterator[LogChunk]:
        yield CHUNK
        open_connections.stop()
        await asyncio.Event().wait()

    async with asyncio.timeout(60), answer_of(follow_log, open_connections) as answer:
        found = [chunk async for chunk in unframed(answer.aiter_bytes())]
    assert (answer.status_code, found) in ([(200, [CHUNK])] if not is_late else [(200, [CHUNK]), (503, [])])
