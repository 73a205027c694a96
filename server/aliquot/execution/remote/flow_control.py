"""Flow control of streams over an agent's connection: a side sends only what the other gave it credit for, in bytes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aliquot.execution.remote.codec import ProtocolError
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.agent_protocol import CloseStream, StreamCredit, StreamData, StreamMessage
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX, STREAM_WINDOW_BYTES
from aliquot_schema.errors import AliquotError, Unavailable

CREDIT_STEP_BYTES: Final = STREAM_WINDOW_BYTES // 4


class FlowStream:
    """One side of a stream; both sides of a connection use it."""

    def __init__(self, request: int, *, send: Callable[[StreamMessage], Awaitable[None]]) -> None:
        """`send` raises an AliquotError when the connection has ended."""
        self._request = request
        self._send = send
        self._pieces: asyncio.Queue[bytes | AliquotError] = asyncio.Queue()
        self._held = 0
        self._taken = 0
        self._credit = STREAM_WINDOW_BYTES
        self._changed = asyncio.Event()
        self._failure: AliquotError | None = None
        self._is_over = False
        self._is_ended = False
        """Whether the other side said that nothing more follows."""

    def receive(self, message: StreamMessage) -> None:
        """Handle a message of the other side.

        Raises:
            ProtocolError: it exceeded its credit.
        """
        match message:
            case StreamData(data=data):
                self._held += len(data)
                if self._held > STREAM_WINDOW_BYTES:
                    raise ProtocolError("more of a stream arrived than its credit allows")
                self._is_ended |= not data
                self._pieces.put_nowait(data)
            case StreamCredit(credit=credit):
                self._credit = min(self._credit + credit, STREAM_WINDOW_BYTES)
                self._changed.set()
            case CloseStream():
                self._is_over = True
                if not self._is_ended:
                    self._pieces.put_nowait(Unavailable("the connection was broken on the node"))
                self._changed.set()

    def fail(self, error: AliquotError) -> None:
        """The connection has ended."""
        self._failure = error
        self._pieces.put_nowait(error)
        self._changed.set()

    async def read(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            AliquotError: the connection has ended, or the other side closed the stream without its end.
        """
        piece = await self._pieces.get()
        if isinstance(piece, AliquotError):
            raise piece
        self._taken += len(piece)
        if self._taken >= CREDIT_STEP_BYTES and not self._is_over:
            taken, self._taken = self._taken, 0
            self._held -= taken
            await self._send(StreamCredit(request=self._request, credit=taken))
        return piece

    async def write(self, data: bytes) -> None:
        """Send data; waits for credit. Data for a closed stream is dropped.

        Raises:
            AliquotError: the connection has ended.
        """
        while data and not self._is_over:
            if self._failure is not None:
                raise self._failure
            if self._credit == 0:
                self._changed.clear()
                await self._changed.wait()
                continue
            piece = data[: min(self._credit, FRAME_BYTES_MAX)]
            data = data[len(piece) :]
            self._credit -= len(piece)
            await self._send(StreamData(request=self._request, data=piece))

    async def end(self) -> None:
        """Nothing more will be sent."""
        if not self._is_over and self._failure is None:
            await self._send(StreamData(request=self._request, data=b""))

    async def close(self) -> None:
        """Close both directions."""
        if not self._is_over and self._failure is None:
            self._is_over = True
            await self._send(CloseStream(request=self._request))


async def joined(one: ByteStream, other: ByteStream) -> None:
    """Carry both directions between two streams until both have ended or one is broken, then close both. A stream that
    is closed before its end is broken for its other side, too."""

    async def carry(source: ByteStream, target: ByteStream) -> None:
        while data := await source.read():
            await target.write(data)
        await target.end()

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(carry(one, other))
            tasks.create_task(carry(other, one))
    except* Unavailable:
        pass
    finally:
        await one.close()
        await other.close()
