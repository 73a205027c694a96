"""Files and metrics of sessions, as their agents send them; every answer of an agent is checked."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from aliquot.service.ports import ByteStream
from aliquot.service.sessions.streams import StreamSource
from aliquot_schema.cluster.results import (
    HEAD_BYTES_MAX,
    LISTING_BYTES_MAX,
    FilePiece,
    FilesRequest,
    ResultListing,
    listing_fault,
    piece_fault,
)
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.metrics import REPORT_BYTES_MAX, MetricPattern, MetricReport, report_fault
from aliquot_schema.resources.leases import Kernel

T = TypeVar("T")
AGENT_S_MAX: Final = 60.0
"""Time for a listing, which may have to hash files, and for the next piece of a file."""


class OpenedResult(Struct, frozen=True, kw_only=True):
    """A part of a file."""

    piece: FilePiece
    content: AsyncGenerator[bytes, None]
    """Exactly `piece.length` bytes; raises Unavailable if there are fewer. Close it."""


class AgentFiles:
    """Asks agents. Every method raises NotFound and Unavailable."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source

    async def listing(self, kernel: Kernel) -> ResultListing:
        """The files of a kernel's session."""
        data = await self._read(kernel, FilesRequest(), most=LISTING_BYTES_MAX)
        return _checked(kernel, data, ResultListing, fault_of=listing_fault)

    async def metrics(self, kernel: Kernel, patterns: tuple[MetricPattern, ...]) -> MetricReport:
        """The metrics in a kernel's output."""
        data = await self._read(kernel, FilesRequest(metrics=patterns), most=REPORT_BYTES_MAX)
        return _checked(kernel, data, MetricReport, fault_of=report_fault)

    async def open(self, kernel: Kernel, asked: FilesRequest) -> OpenedResult:
        """A part of a file; close its content."""
        stream = await self._stream(kernel, asked)
        data = b""
        try:
            async with asyncio.timeout(AGENT_S_MAX):
                while b"\n" not in data and len(data) <= HEAD_BYTES_MAX and (piece := await stream.read()):
                    data += piece
            head, _, rest = data.partition(b"\n")
            found = _checked(kernel, head, FilePiece, fault_of=piece_fault)
        except TimeoutError:
            await _close(stream)
            raise _silent(kernel) from None
        except BaseException:
            await _close(stream)
            raise
        content = _content(kernel, stream, rest, left=found.length)
        await anext(content)
        return OpenedResult(piece=found, content=content)

    async def _read(self, kernel: Kernel, asked: FilesRequest, *, most: int) -> bytes:
        """All that an agent answers."""
        stream = await self._stream(kernel, asked)
        data = bytearray()
        try:
            async with asyncio.timeout(AGENT_S_MAX):
                while piece := await stream.read():
                    data += piece
                    if len(data) > most:
                        raise _broken(kernel, "is too long")
        except TimeoutError:
            raise _silent(kernel) from None
        finally:
            await _close(stream)
        return bytes(data)

    async def _stream(self, kernel: Kernel, asked: FilesRequest) -> ByteStream:
        return await self._source.open_stream(kernel.agent_id, kernel.id, StreamTarget(files=asked))


async def _content(kernel: Kernel, stream: ByteStream, data: bytes, *, left: int) -> AsyncGenerator[bytes, None]:
    """The content, after an empty piece: closing a generator that was never started would not close the stream."""
    try:
        yield b""
        while left:
            if data:
                data = data[:left]
                left -= len(data)
                yield data
            if not left:
                return
            async with asyncio.timeout(AGENT_S_MAX):
                data = await stream.read()
            if not data:
                raise Unavailable("the file became shorter, or its agent was lost; try again")
    except TimeoutError:
        raise _silent(kernel) from None
    finally:
        await _close(stream)


async def _close(stream: ByteStream) -> None:
    with suppress(AliquotError):
        await stream.close()


def _checked(kernel: Kernel, data: bytes, kind: type[T], *, fault_of: Callable[[T], str | None]) -> T:
    try:
        found = msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise _broken(kernel, f"is not valid: {error}") from None
    fault = fault_of(found)
    if fault is not None:
        raise _broken(kernel, f"is not valid: {fault}")
    return found


def _silent(kernel: Kernel) -> Unavailable:
    return Unavailable(f"agent {kernel.agent_id} did not answer within {AGENT_S_MAX:g} s; try again later")


def _broken(kernel: Kernel, what: str) -> Unavailable:
    return Unavailable(f"what agent {kernel.agent_id} sent about results {what}")
