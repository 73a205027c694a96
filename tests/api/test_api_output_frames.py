"""Output frames between servers: chunks arrive unchanged, however the stream is split."""

import asyncio
from collections.abc import AsyncIterator

from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.api.job_output import frame, unframed
from aliquot_schema.cluster.launching import OUTPUT_END, LogChunk

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
