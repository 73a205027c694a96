"""Messages on a stream: four bytes of length (big endian), and JSON."""

import asyncio
from typing import Any, Final, Generic, TypeVar

import msgspec

LENGTH_MAX: Final = 8 << 20

T = TypeVar("T")


class PipeBroken(Exception):
    """The other side is gone, or does not speak this."""


class Pipe(Generic[T]):
    """Both directions of one stream; `T` is what comes in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, incoming: Any) -> None:
        """
        Args:
            incoming: the type `T`, a union of tagged structs.
        """
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(incoming)

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message; waits while the other side does not read. One that is gone gets nothing."""
        if self._writer.is_closing():
            return
        body = msgspec.json.encode(message)
        self._writer.write(len(body).to_bytes(4, "big") + body)
        try:
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> T:
        """The next message.

        Raises:
            PipeBroken: there will be none.
        """
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            if length > LENGTH_MAX:
                raise PipeBroken(f"a message of {length} bytes is announced")
            return self._decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise PipeBroken("the other side is gone") from None
        except msgspec.MsgspecError as error:
            raise PipeBroken(f"a message cannot be read: {error}") from None

    def close(self) -> None:
        """Let go of the stream."""
        self._writer.close()
