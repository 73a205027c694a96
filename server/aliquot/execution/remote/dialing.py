"""Dialing: opens an agent's connection to its server (address, key file, TLS, WebSocket) and explains failures."""

import errno
import logging
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

from aliquot.errors import ConfigurationError
from aliquot.execution.remote.codec import FRAME_BYTES_MAX, Channel, ProtocolError
from aliquot.execution.remote.session import Refused, refused
from aliquot_schema.cluster.agent_protocol import AGENT_HEADER, PATH, PROTOCOLS, Hello, Refusal, Welcome
from aliquot_schema.ids import AgentId

log: Final = logging.getLogger("aliquot.agent")

_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


class ServerAddress(Struct, frozen=True, kw_only=True):
    """URL of a server and how to verify its certificate."""

    url: str
    """WebSocket URL."""
    ca_file: Path | None = None
    """Authorities to trust; None = those of this machine."""

    @property
    def has_tls(self) -> bool:
        return self.url.startswith("wss:")

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.has_tls else 80)

    def tls_context(self) -> ssl.SSLContext | None:
        """Settings of TLS for one connection; None = no TLS. Reads the file, so that a renewed one needs no restart.

        Raises:
            ConfigurationError: the file contains no certificate.
        """
        if not self.has_tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"ca-file: {self.ca_file} cannot be used: {error}") from None


def server_address(url: str, *, ca_file: Path | None = None) -> ServerAddress:
    """Parse an address as written by an operator: `https://host[:port]`, also with http, ws or wss.

    Raises:
        ConfigurationError: the address is invalid, or the file contains no certificate.
    """
    parts = urlsplit(url)
    try:
        scheme, _ = _SCHEMES[parts.scheme], parts.port
    except (KeyError, ValueError):
        raise ConfigurationError(f"server: {url!r} is not an address like https://host:8090") from None
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ConfigurationError(f"server: {url!r} is not an address like https://host:8090")
    if scheme == "ws" and ca_file is not None:
        raise ConfigurationError("ca-file: needs an https or wss address; others have no certificate")
    path = parts.path.rstrip("/").removesuffix(PATH) + PATH
    address = ServerAddress(url=urlunsplit((scheme, parts.netloc, path, "", "")), ca_file=ca_file)
    address.tls_context()
    return address


_CERTIFICATE: Final = {
    9: "its certificate is not valid yet; compare the clocks of both machines",
    10: "its certificate has expired; renew it, the server reloads certificate files by itself",
    18: "its certificate is self-signed; if it is the right one, pass it with --ca-file",
    19: "its certificate is signed by an authority that is not trusted here; pass the authority with --ca-file",
    20: "its certificate is signed by an authority that is not trusted here; pass the authority with --ca-file",
    21: "its certificate has no authority that is trusted here; pass the authority with --ca-file",
    62: "its certificate is for another name; use that name in the address",
    64: "its certificate is for another address; use the name or address of the certificate",
}
"""Error code of X509_verify_cert_error(3) -> message."""


EXPIRY_WARNING_MAX: Final = timedelta(days=14)
EXPIRY_WARNING_PART: Final = 5


def expires_soon(begins: datetime, ends: datetime, *, now: datetime) -> bool:
    """Whether a certificate is in its last 14 days, or in the last fifth of a shorter lifetime."""
    return ends - now <= min(EXPIRY_WARNING_MAX, (ends - begins) / EXPIRY_WARNING_PART)


def connection_fault(error: Exception, address: ServerAddress) -> str:
    """Message for an error while dialling a server: the cause and what to do."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=18 | 19 | 20 | 21) if address.ca_file is not None:
            return (
                f"its certificate is not in {address.ca_file}, nor signed by one that is; if it was renewed, copy the "
                f"new one there ({error.verify_message})"
            )
        case ssl.SSLCertVerificationError(verify_code=code):
            return f"{_CERTIFICATE.get(code, 'its certificate is not accepted')} ({error.verify_message})"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return "the server does not use TLS; use http://, or start the server with --tls-certificate"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or error}"
        case socket.gaierror():
            return f"the host name does not resolve ({error.strerror})"
        case TimeoutError():
            return "no answer; check the address and firewalls"
        case OSError() if _is_refused(error):
            return "connection refused; check the port, and that the server is running"
        case InvalidMessage() | ConnectionResetError() if not address.has_tls:
            return "the server closed the connection; if it uses TLS, use https://"
    return str(error) or type(error).__name__


def _is_refused(error: Exception) -> bool:
    """Whether no server listens. asyncio makes one text of the errors of all addresses of a host."""
    text = str(error)
    is_joined = isinstance(error, OSError) and text.startswith("Multiple exceptions: ")
    is_each = text.count("[Errno ") == text.count(f"[Errno {errno.ECONNREFUSED}]")
    return isinstance(error, ConnectionRefusedError) or (is_joined and is_each)


OPEN_S_MAX: Final = 10.0
CLOSE_S_MAX: Final = 1.0
KEY_CHARACTERS_MAX: Final = 1000
AGAIN_S_MAX: Final = 60.0
"""Longest wait that a server may ask for."""


class Unreachable(Exception):
    """The server cannot be reached now; the message says why."""

    def __init__(self, message: str, *, again_s: float = 0.0, is_down: bool = False) -> None:
        """
        Args:
            again_s: seconds that the server asked to wait; 0 = it did not say.
            is_down: whether the host is there, and no server listens.
        """
        super().__init__(message)
        self.again_s = again_s
        self.is_down = is_down


def read_key(path: Path) -> str:
    """Read the agent's key.

    Raises:
        ConfigurationError: the file is unreadable, readable by other users, or contains no key.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(KEY_CHARACTERS_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"key-file: {path} cannot be read: {error}") from None
    if not stat.S_ISREG(mode) or mode & 0o077:
        raise ConfigurationError(f"key-file: other users can read {path}; run `chmod 600 {path}` and replace the key")
    if not key or not key.isprintable() or " " in key:
        raise ConfigurationError(f"key-file: {path} has no key; `aliquot agent key create` on the server prints one")
    return key


class CurrentKey:
    """The key in a file, read again for each connection, so that a new key needs no restart."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ConfigurationError: see `read_key`.
        """
        self._path = path
        self._key = read_key(path)
        self._logged = ""

    def __call__(self) -> str:
        """The key, or the last one while the file is unusable, which is logged."""
        try:
            self._key, self._logged = read_key(self._path), ""
        except ConfigurationError as error:
            if str(error) != self._logged:
                self._logged = str(error)
                log.warning("%s; the key read before is used", error)
        return self._key


class SocketWire:
    """A `Wire` over the websockets library."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, data: bytes) -> None:
        """Send a frame; waits while the peer does not read."""
        try:
            await self._socket.send(data)
        except ConnectionClosed:
            return

    async def receive(self) -> bytes | None:
        """The next frame; None at the end of the connection."""
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
        Unreachable: no server answers there, or it is not an Aliquot server.
        Refused: the server rejects the key.
    """
    try:
        tls = address.tls_context()
    except ConfigurationError as error:
        raise Unreachable(str(error)) from None
    connecting = connect(
        address.url,
        additional_headers={"authorization": f"Bearer {key}", AGENT_HEADER: agent_id},
        compression=None,
        proxy=None,
        ping_interval=None,  # heartbeats of the protocol are answered by the agent itself, not by a library
        open_timeout=OPEN_S_MAX,
        close_timeout=CLOSE_S_MAX,
        max_size=2 * FRAME_BYTES_MAX,
        ssl=tls,
    )
    try:
        socket = await connecting
    except InvalidStatus as error:
        raise _refused(error) from None
    except (OSError, InvalidHandshake, TimeoutError) as error:
        words = f"{address.host}:{address.port}: {connection_fault(error, address)}"
        raise Unreachable(words, is_down=_is_refused(error)) from None
    try:
        yield Channel(SocketWire(socket))
    finally:
        await socket.close()


async def introduce(channel: Channel, hello: Hello) -> Welcome:
    """Send the hello and return the server's welcome.

    Raises:
        Refused: the server does not accept this agent now.
        ChannelClosed, ProtocolError: the server did not answer as the protocol says.
    """
    await channel.send(hello)
    answer = await channel.receive()
    match answer:
        case Welcome(protocol=protocol) if not PROTOCOLS.oldest <= protocol <= PROTOCOLS.newest:
            raise ProtocolError(f"the server chose protocol {protocol}, which this agent does not support")
        case Welcome():
            return answer
        case Refusal():
            raise refused(answer)
        case _:
            raise ProtocolError("the server did not answer the hello with a welcome")


def _refused(error: InvalidStatus) -> Refused | Unreachable:
    status = error.response.status_code
    message = (error.response.body or b"").decode(errors="replace").strip()[:1000]
    if status == 401:
        return Refused(message or "the server rejects the key")
    retry_after = error.response.headers.get("retry-after", "")
    again_s = min(float(retry_after), AGAIN_S_MAX) if status == 503 and retry_after.isdecimal() else 0.0
    words = f"the server answers {status}: {message or 'agents cannot connect there'}"
    return Unreachable(words, again_s=again_s)
