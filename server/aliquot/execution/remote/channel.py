"""One connection that carries messages, whichever library holds its socket."""

import asyncio
import time
from typing import Protocol

from aliquot.execution.remote.codec import Assembly, decode, encode, frames
from aliquot_schema.agent_protocol import Message


class Wire(Protocol):
    """A WebSocket. Sending on one that is closed does nothing: who receives finds out."""

    async def send(self, data: bytes) -> None:
        """Send a frame; waits while the other side does not read."""

    async def receive(self) -> bytes | None:
        """The next frame; None when the connection has ended, and from then on."""

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection."""


class ChannelClosed(Exception):
    """The connection has ended."""


class Channel:
    """Sends whole messages, one after the other; one reader."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._assembly = Assembly()
        self._sending = asyncio.Lock()
        self._torn = False
        self.heard_at = time.monotonic()
        """When the other side last sent anything, in seconds of the monotonic clock."""

    async def send(self, message: Message) -> None:
        """Send a message; waits while the other side does not read.

        Raises:
            ChannelClosed: an earlier message was cut off in the middle.
        """
        cut = list(frames(encode(message)))
        async with self._sending:
            if self._torn:
                raise ChannelClosed
            self._torn = True
            for number, frame in enumerate(cut):
                try:
                    await self._wire.send(frame)
                except asyncio.CancelledError:
                    self._torn = number > 0
                    raise
            self._torn = False

    async def receive(self) -> Message:
        """The next message that is known here.

        Raises:
            ChannelClosed: there will be none.
            ProtocolError: what came is no message.
        """
        while True:
            frame = await self._wire.receive()
            if frame is None:
                raise ChannelClosed
            self.heard_at = time.monotonic()
            whole = self._assembly.take(frame)
            message = None if whole is None else decode(whole)
            if message is not None:
                return message

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection."""
        await self._wire.close(code=code, reason=reason)
