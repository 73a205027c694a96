"""Gateway protocol: messages between the server and its Ray gateway, on a socket pair made by the server.

gateway                            server
Joined, or Apart              ->                            state of Ray, sent periodically
Opened                        ->                            an agent is connected
Frame                         <->  Frame                    frames of `remote.codec`
Taken                         ->                            bytes that have reached the agent
Closed                        <->  Closed                   the connection has ended

A message is its length in four bytes (big endian) and JSON.
"""

import asyncio
from typing import Any, Final, Generic, TypeVar

import msgspec

CREDIT_BYTES: Final = 1 << 20
"""Maximum of unacknowledged bytes to one agent."""


class RayReachable(msgspec.Struct, frozen=True, kw_only=True, tag="joined"):
    """Ray is reachable."""

    version: str
    workers: int
    """Nodes with a connected agent."""
    nodes: int
    """Nodes alive according to Ray."""
    problems: tuple[str, ...] = ()
    """Why nodes have no connected agent, one line per node."""


class RayUnreachable(msgspec.Struct, frozen=True, kw_only=True, tag="apart"):
    """Ray is not reachable."""

    reason: str


class ConnectionOpened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """A new connection to an agent."""

    connection: int
    agent_id: str


class Frame(msgspec.Struct, frozen=True, kw_only=True, tag="frame"):
    """One frame of a connection; base64 in JSON."""

    connection: int
    data: bytes


class FramesReceived(msgspec.Struct, frozen=True, kw_only=True, tag="taken"):
    """The agent has received frames of `size` bytes in total."""

    connection: int
    size: int


class ConnectionEnded(msgspec.Struct, frozen=True, kw_only=True, tag="closed"):
    """One side has ended the connection."""

    connection: int
    died: bool = False
    """Whether Ray reports the agent's process as dead."""


FromGateway = RayReachable | RayUnreachable | ConnectionOpened | Frame | FramesReceived | ConnectionEnded
FromServer = Frame | ConnectionEnded


LENGTH_MAX: Final = 8 << 20

T = TypeVar("T")


class PipeBroken(Exception):
    """The peer is gone or violated the protocol."""


class Pipe(Generic[T]):
    """Messages over one stream in both directions; `T` is the type of received messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, incoming: Any) -> None:
        """
        Args:
            incoming: the type `T`, a union of tagged structs.
        """
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(incoming)

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message; waits while the peer does not read. No effect if the peer is gone."""
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
            PipeBroken: the peer is gone, or the message is malformed.
        """
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            if length > LENGTH_MAX:
                raise PipeBroken(f"a message has {length} bytes; {LENGTH_MAX} are allowed")
            return self._decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise PipeBroken("the peer is gone") from None
        except msgspec.MsgspecError as error:
            raise PipeBroken(f"a message cannot be read: {error}") from None

    def close(self) -> None:
        """Close the stream."""
        self._writer.close()
