"""The way from an agent to its server: the address, the key, TLS, and a WebSocket."""

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from aliquot.errors import ConfigurationError
from aliquot.execution.remote.channel import Channel
from aliquot.execution.remote.codec import FRAME_BYTES_MAX, ProtocolError
from aliquot.execution.remote.connection_words import connection_words
from aliquot.execution.remote.conversation import Refused, refused
from aliquot.execution.remote.server_address import ServerAddress
from aliquot_schema.agent_protocol import AGENT_HEADER, PROTOCOLS, Hello, Refusal, Welcome
from aliquot_schema.ids import AgentId

OPEN_S_MAX: Final = 10.0
CLOSE_S_MAX: Final = 1.0
KEY_CHARACTERS_MAX: Final = 1000


class Unreachable(Exception):
    """There is no way to the server now; the message says where it ends."""


def read_key(path: Path) -> str:
    """The agent's key.

    Raises:
        ConfigurationError: the file cannot be read, others can read it, or it holds no key.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(KEY_CHARACTERS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"key-file: {path} cannot be read: {error}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise ConfigurationError(f"key-file: others can read {path}; do `chmod 600 {path}`, and think of a new key")
    if not key or not key.isprintable() or " " in key:
        raise ConfigurationError(f"key-file: {path} holds no key; `aliquot agent key create` on the server prints one")
    return key


class SocketWire:
    """A `Wire` over the websockets library."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, data: bytes) -> None:
        """Send a frame; waits while the other side does not read."""
        try:
            await self._socket.send(data)
        except ConnectionClosed:
            return

    async def receive(self) -> bytes | None:
        """The next frame; None when the connection has ended."""
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed:
            return None

    async def close(self, *, code: int, reason: str) -> None:
        """End the connection."""
        await self._socket.close(code, reason)


@asynccontextmanager
async def dialled(address: ServerAddress, *, agent_id: AgentId, key: str) -> AsyncIterator[Channel]:
    """Open a connection, and close it at the end.

    Raises:
        Unreachable: there is nobody, or nobody who speaks this.
        Refused: the server does not take the key.
    """
    connecting = connect(
        address.url,
        additional_headers={"authorization": f"Bearer {key}", AGENT_HEADER: agent_id},
        compression=None,
        proxy=None,
        ping_interval=None,  # beats do that, and are answered by the program, not by a library
        open_timeout=OPEN_S_MAX,
        close_timeout=CLOSE_S_MAX,
        max_size=2 * FRAME_BYTES_MAX,
        ssl=address.tls,
    )
    try:
        socket = await connecting
    except InvalidStatus as error:
        raise _refused(error) from None
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise Unreachable(f"{address.host}:{address.port}: {connection_words(error, address)}") from None
    try:
        yield Channel(SocketWire(socket))
    finally:
        await socket.close()


async def introduce(channel: Channel, hello: Hello) -> Welcome:
    """Say hello.

    Raises:
        Refused: the server does not want this agent now.
        ChannelClosed, ProtocolError: it answers otherwise.
    """
    await channel.send(hello)
    answer = await channel.receive()
    match answer:
        case Welcome(protocol=protocol) if not PROTOCOLS.oldest <= protocol <= PROTOCOLS.newest:
            raise ProtocolError(f"the server chose protocol {protocol}, which this agent does not speak")
        case Welcome():
            return answer
        case Refusal():
            raise refused(answer)
        case _:
            raise ProtocolError("the server did not answer the hello")


def _refused(error: InvalidStatus) -> Refused | Unreachable:
    status = error.response.status_code
    words = (error.response.body or b"").decode(errors="replace").strip()[:1000]
    if status == 401:
        return Refused(words or "the server does not take the key")
    return Unreachable(f"the server answers {status} {words or 'and has no place for agents there'}")
