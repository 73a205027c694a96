"""Output frames between servers: chunks arrive unchanged, however the stream is split."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from aliquot.api.authentication import TokenAuth
from aliquot.api.job_output import OUTPUTS_PATH, OutputPages, frame, unframed
from aliquot_schema.cluster.launching import OUTPUT_END, LogChunk
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import UserId
from api_server import TOKEN

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


@pytest.mark.anyio
async def test_the_output_of_a_lost_agent_ends_early_and_without_an_error() -> None:
    chunk = LogChunk(offset=0, data=b"one\n", at_end=False)

    async def follow_log(*_: object, **__: object) -> AsyncIterator[LogChunk]:
        yield chunk
        raise Unavailable("agent demo-1 is no longer connected to this server")

    outputs: Any = SimpleNamespace(follow_log=follow_log)
    pages = OutputPages(outputs, auth=TokenAuth(TOKEN, UserId("ada")))
    transport = httpx.ASGITransport(Starlette(routes=[Route(OUTPUTS_PATH, pages.stream)]))
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
        answer = await client.get(OUTPUTS_PATH, params={"agent_id": "demo-1", "kernel_id": "krn_1"})
    assert [found async for found in unframed(answer.aiter_bytes())] == [chunk]
