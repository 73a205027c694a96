"""The server's end of a connection over Ray."""

import asyncio
from collections.abc import Awaitable, Callable

from aliquot.execution.ray.messages import CREDIT_BYTES, Closed, Frame, FromServer


class GatewayWire:
    """A `Wire`, see `remote.channel`. Sends no more than the agent takes."""

    def __init__(self, connection: int, *, send: Callable[[FromServer], Awaitable[None]]) -> None:
        self._connection = connection
        self._send = send
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._under_way = 0
        self._changed = asyncio.Condition()
        self._is_over = False

    async def send(self, data: bytes) -> None:
        """Send a frame; waits while too much is on its way."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over or self._under_way < CREDIT_BYTES)
            if self._is_over:
                return
            self._under_way += len(data)
        await self._send(Frame(connection=self._connection, data=data))

    async def receive(self) -> bytes | None:
        """The next frame; None when the connection has ended."""
        frame = None if self._is_over and self._frames.empty() else await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
        return frame

    async def close(self, *, code: int, reason: str) -> None:  # noqa: ARG002 # the signature is the protocol's
        """End the connection."""
        if not self._is_over:
            await self.end()
            await self._send(Closed(connection=self._connection))

    def take(self, data: bytes) -> None:
        """A frame came."""
        self._frames.put_nowait(data)

    async def taken(self, size: int) -> None:
        """The agent has taken so many bytes."""
        async with self._changed:
            self._under_way -= size
            self._changed.notify_all()

    async def end(self) -> None:
        """The connection is over; what came can still be received."""
        self._frames.put_nowait(None)
        async with self._changed:
            self._is_over = True
            self._changed.notify_all()
