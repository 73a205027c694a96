"""Where a server is, and how to know that it is the right one."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from aliquot.errors import ConfigurationError
from aliquot_schema.agent_protocol import PATH

_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


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


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"ca-file: {ca_file} cannot be used: {error}") from None
