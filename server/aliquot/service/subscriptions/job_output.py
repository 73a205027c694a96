"""Job output: a kernel's output as UTF-8 text, followed as a stream or read in pieces without waiting.

Characters are never split across chunks; invalid bytes become U+FFFD. Offsets count bytes from 0.
"""

import asyncio
import codecs
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from aliquot_schema.cluster.launching import OUTPUT_END, LogChunk
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId, SessionId, kernel_id
from aliquot_schema.resources.leases import Kernel
from aliquot_schema.sessions import Session
from aliquot_schema.views.live import LogChunkView, SessionLogView

UTF8_BYTES_MAX: Final = 4


async def decoded(kernel: Kernel, chunks: AsyncIterator[LogChunk], *, offset: int) -> AsyncIterator[LogChunkView]:
    """Decode the output of a kernel.

    Args:
        offset: the byte from which the chunks were requested.
    """
    rest, position = b"", offset
    async for chunk in chunks:
        # After a gap, an incomplete character before it is dropped.
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


def empty_chunk(session_id: str, *, rank: int, attempt: int, offset: int) -> LogChunkView:
    """The only chunk of a kernel that never started and never will."""
    name = kernel_id(SessionId(session_id), attempt=attempt, rank=rank)
    return LogChunkView(
        session_id=session_id, kernel_id=name, rank=rank, offset=offset, next_offset=offset, text="", at_end=True
    )


def _unfinished(data: bytes) -> int:
    """Number of bytes at the end that begin an incomplete character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-UTF8_BYTES_MAX:])
    return len(decoder.getstate()[0])


class Outputs(Protocol):
    """Source of kernel output; the part of `Executor` that is needed here."""

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`."""


WAIT_S: Final = 10.0
"""Timeout for reading a piece from an agent."""


async def piece_of(outputs: Outputs, kernel: Kernel, *, offset: int, bytes_max: int, is_over: bool) -> SessionLogView:
    """Read a piece of a kernel's output, up to its current end. A piece that is not counted from the end stops at a
    hole, so that its reader knows where bytes are missing.

    Args:
        offset: of the first byte; negative counts from the end, rounded up to the start of a character.
        bytes_max: at least `UTF8_BYTES_MAX`.
        is_over: whether the kernel has ended, so that no output follows.
    Raises:
        Unavailable: the agent is unreachable, or did not answer within `WAIT_S`.
        NotFound: the agent has no such output.
    """
    try:
        async with asyncio.timeout(WAIT_S):
            length = await _length(outputs, kernel)
            begin = offset if offset >= 0 else max(0, length + offset)
            strays = UTF8_BYTES_MAX - 1 if offset < 0 < begin else 0
            piece = _Piece(position=begin, end=length, budget_bytes=bytes_max, is_over=is_over, strays=strays)
            return await _read(outputs, kernel, piece, stops_at_hole=offset >= 0)
    except TimeoutError:
        raise Unavailable(
            f"agent {kernel.agent_id} did not return the output of {kernel.id} within {WAIT_S:g} s; try again later"
        ) from None


def empty_piece(session: Session, *, rank: int, attempt: int, offset: int, is_over: bool) -> SessionLogView:
    """The piece of a kernel without output."""
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
    """Progress of reading one piece."""

    position: int
    end: int
    budget_bytes: int
    """Bytes that may still be read."""
    is_over: bool
    strays: int
    """Bytes at the beginning that may belong to the previous character."""
    left_out: int = 0

    @property
    def is_read(self) -> bool:
        return self.position >= self.end or not self.budget_bytes

    async def of(self, chunks: AsyncIterator[LogChunk]) -> AsyncIterator[LogChunk]:
        """The chunks from `position` on, cut to the piece."""
        async for chunk in chunks:
            self.left_out += chunk.offset - self.position
            data = chunk.data[: min(self.budget_bytes, max(0, self.end - chunk.offset))]
            self.position = chunk.offset + len(data)
            self.budget_bytes -= len(data)
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
    raise Unavailable(
        f"agent {kernel.agent_id} has an older version that cannot return parts of the output of {kernel.id}; update it"
    )


async def _read(outputs: Outputs, kernel: Kernel, piece: _Piece, *, stops_at_hole: bool) -> SessionLogView:
    begin = next_offset = piece.position
    texts: list[str] = []
    left_out, is_cut = 0, False
    if not piece.is_read:
        async with _following(outputs, kernel, begin) as chunks:
            async for view in decoded(kernel, piece.of(chunks), offset=begin):
                is_cut = stops_at_hole and any(texts) and piece.left_out > left_out
                if is_cut:
                    break
                left_out = piece.left_out
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
        left_out=left_out,
        has_more=is_cut or piece.position < piece.end,
        text="".join(texts),
        at_end=piece.is_over and piece.position >= piece.end and not is_cut,
    )


def _following(outputs: Outputs, kernel: Kernel, offset: int) -> AbstractAsyncContextManager[AsyncIterator[LogChunk]]:
    """Closes the stream when enough was read."""
    # The executors' iterators are generators.
    return aclosing(outputs.follow_log(kernel.agent_id, kernel.id, offset=offset))  # type: ignore[type-var]


def _continuation(data: bytes) -> int:
    """Number of bytes at the beginning that belong to the previous character."""
    return next((index for index, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
