"""Pieces of an output: so many bytes from somewhere on, or before its end, without waiting for more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Final

from aliquot.service.printed.decoding import UTF8_BYTES_MAX, decoded
from aliquot.service.printed.ports import Outputs
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import kernel_id
from aliquot_schema.launching import OUTPUT_END, LogChunk
from aliquot_schema.leases import Kernel
from aliquot_schema.log_views import SessionLogView
from aliquot_schema.sessions import Session

WAIT_S: Final = 10.0
"""What is there comes at once; so long an agent may take over it."""


async def piece_of(outputs: Outputs, kernel: Kernel, *, offset: int, bytes_max: int, is_over: bool) -> SessionLogView:
    """What a kernel has printed, up to where its output ends now.

    Args:
        offset: of the first byte; a negative one counts from the end, and then the piece begins with a character.
        bytes_max: at least as long as a character is.
        is_over: whether the kernel is known to have ended, so that nothing follows what is there.
    Raises:
        Unavailable: its agent cannot be asked.
        NotFound: its agent has no such output.
    """
    try:
        async with asyncio.timeout(WAIT_S):
            length = await _length(outputs, kernel)
            begin = offset if offset >= 0 else max(0, length + offset)
            strays = UTF8_BYTES_MAX - 1 if offset < 0 < begin else 0
            piece = _Piece(position=begin, end=length, room=bytes_max, is_over=is_over, strays=strays)
            return await _read(outputs, kernel, piece)
    except TimeoutError:
        raise Unavailable(f"{kernel.agent_id} does not tell what {kernel.id} printed; ask again later") from None


def nothing_of(session: Session, *, rank: int, attempt: int, offset: int, is_over: bool) -> SessionLogView:
    """The piece of a kernel that has not begun to print."""
    return SessionLogView(
        session_id=session.id,
        kernel_id=kernel_id(session.id, attempt=attempt, rank=rank),
        rank=rank,
        attempt=attempt,
        offset=offset,
        next_offset=offset,
        length=0,
        left_out=0,
        has_more=False,
        text="",
        at_end=is_over,
    )


@dataclass(slots=True, kw_only=True)
class _Piece:
    """What of an output is read, and how far that is."""

    position: int
    end: int
    room: int
    """Bytes that may still be read."""
    is_over: bool
    strays: int
    """So many bytes at its beginning may be the rest of a character before it."""
    left_out: int = 0

    @property
    def is_read(self) -> bool:
        return self.position >= self.end or not self.room

    async def of(self, chunks: AsyncIterator[LogChunk]) -> AsyncIterator[LogChunk]:
        """The chunks of the output from `position` on, as far as they belong to the piece."""
        async for chunk in chunks:
            self.left_out += chunk.offset - self.position
            data = chunk.data[: min(self.room, max(0, self.end - chunk.offset))]
            self.position = chunk.offset + len(data)
            self.room -= len(data)
            cut = _continuation(data[: self.strays])
            self.strays = self.strays - cut if cut == len(data) else 0
            yield LogChunk(
                offset=chunk.offset + cut, data=data[cut:], at_end=self.is_over and self.position >= self.end
            )
            if self.is_read:
                return


async def _length(outputs: Outputs, kernel: Kernel) -> int:
    async with _following(outputs, kernel, OUTPUT_END) as chunks:
        async for chunk in chunks:
            if chunk.offset < OUTPUT_END:
                return chunk.offset
            break
    raise Unavailable(f"{kernel.agent_id} is of an older version, and cannot tell pieces of what {kernel.id} printed")


async def _read(outputs: Outputs, kernel: Kernel, piece: _Piece) -> SessionLogView:
    begin = next_offset = piece.position
    texts: list[str] = []
    if not piece.is_read:
        async with _following(outputs, kernel, begin) as chunks:
            async for view in decoded(kernel, piece.of(chunks), offset=begin):
                begin, next_offset = (begin if any(texts) else view.offset), view.next_offset
                texts.append(view.text)
    return SessionLogView(
        session_id=kernel.session_id,
        kernel_id=kernel.id,
        rank=kernel.rank,
        attempt=kernel.attempt,
        offset=begin,
        next_offset=next_offset,
        length=piece.end,
        left_out=piece.left_out,
        has_more=piece.position < piece.end,
        text="".join(texts),
        at_end=piece.is_over and piece.position >= piece.end,
    )


def _following(outputs: Outputs, kernel: Kernel, offset: int) -> AbstractAsyncContextManager[AsyncIterator[LogChunk]]:
    """Closed at once when enough was read."""
    # The executors' iterators are generators.
    return aclosing(outputs.follow_log(kernel.agent_id, kernel.id, offset=offset))  # type: ignore[type-var]


def _continuation(data: bytes) -> int:
    """How many bytes at the beginning belong to a character before them."""
    return next((place for place, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
