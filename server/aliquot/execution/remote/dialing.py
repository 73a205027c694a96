"""The way from an agent to its server: the address, the key, TLS, and a WebSocket."""

import os
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from aliquot.errors import ConfigurationError
from aliquot.execution.remote.channel import Channel
from aliquot.execution.remote.codec import FRAME_BYTES_MAX, ProtocolError
from aliquot.execution.remote.conversation import Refused
from aliquot_schema.agent_protocol import AGENT_HEADER, PATH, Hello, Refusal, Welcome
from aliquot_schema.ids import AgentId

OPEN_S_MAX: Final = 10.0
CLOSE_S_MAX: Final = 1.0
KEY_CHARACTERS_MAX: Final = 1000
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


class Unreachable(Exception):
    """There is no way to the server now; the message says where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where to dial, and how to know that it is the right one."""

    url: str
    """Of the WebSocket."""
    tls: ssl.SSLContext | None

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.tls else 80)


def server_address(url: str, *, ca_file: Path | None = None) -> ServerAddress:
    """The address from what a person writes: `https://host[:port]`, also with http, ws or wss.

    Raises:
        ConfigurationError: it is no such address, or the file holds no certificate.
    """
    parts = urlsplit(url)
    try:
        scheme, _ = _SCHEMES[parts.scheme], parts.port
    except (KeyError, ValueError):
        raise ConfigurationError(f"server: {url!r} is no address like https://host:8090") from None
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ConfigurationError(f"server: {url!r} is no address like https://host:8090")
    if scheme == "ws" and ca_file is not None:
        raise ConfigurationError("ca-file: only https and wss addresses have certificates")
    path = parts.path.rstrip("/").removesuffix(PATH) + PATH
    tls = _tls(ca_file) if scheme == "wss" else None
    return ServerAddress(url=urlunsplit((scheme, parts.netloc, path, "", "")), tls=tls)


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
        raise Unreachable(f"{address.host}:{address.port}: {error or type(error).__name__}") from None
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
        case Welcome():
            return answer
        case Refusal(message=words):
            raise Refused(words)
        case _:
            raise ProtocolError("the server did not answer the hello")


def _refused(error: InvalidStatus) -> Refused | Unreachable:
    status = error.response.status_code
    words = (error.response.body or b"").decode(errors="replace").strip()[:1000]
    if status == 401:
        return Refused(words or "the server does not take the key")
    return Unreachable(f"the server answers {status} {words or 'and has no place for agents there'}")


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"ca-file: {ca_file} cannot be used: {error}") from None
