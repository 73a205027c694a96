"""Output as text. Characters are never cut in the middle; bytes that are none are shown as U+FFFD."""

import codecs
from collections.abc import AsyncIterator
from typing import Final

from aliquot_schema.ids import SessionId, kernel_id
from aliquot_schema.launching import LogChunk
from aliquot_schema.leases import Kernel
from aliquot_schema.views import LogChunkView

UTF8_BYTES_MAX: Final = 4


async def decoded(kernel: Kernel, chunks: AsyncIterator[LogChunk], *, offset: int) -> AsyncIterator[LogChunkView]:
    """What a kernel prints, as text.

    Args:
        offset: of the byte at which the first chunk was asked for.
    """
    rest, position = b"", offset
    async for chunk in chunks:
        # What was cut out of an output lets the rest of a character before it stand alone.
        data = rest + chunk.data if chunk.offset == position else chunk.data
        position = chunk.offset + len(chunk.data)
        keep = 0 if chunk.at_end else _unfinished(data)
        rest = data[len(data) - keep :]
        yield LogChunkView(
            session_id=kernel.session_id,
            kernel_id=kernel.id,
            rank=kernel.rank,
            offset=position - len(data),
            next_offset=position - keep,
            text=data[: len(data) - keep].decode("utf-8", "replace"),
            at_end=chunk.at_end,
        )


def nothing(session_id: str, *, rank: int, attempt: int, offset: int) -> LogChunkView:
    """The output of a kernel that was never started, and never will be."""
    name = kernel_id(SessionId(session_id), attempt=attempt, rank=rank)
    return LogChunkView(
        session_id=session_id, kernel_id=name, rank=rank, offset=offset, next_offset=offset, text="", at_end=True
    )


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a character whose rest is still to come."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-UTF8_BYTES_MAX:])
    return len(decoder.getstate()[0])
