"""Readiness of a server, which needs no token."""

from pathlib import Path

import httpx
import msgspec

from aliquot.client.errors import ServerUnreachable, UnexpectedAnswer
from aliquot.client.requests import check_address, is_loopback, trusting


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/readyz`."""

    ready: bool
    missing: tuple[str, ...]
    """Codes of the reasons why it cannot serve."""
    warnings: tuple[str, ...]
    """Codes of problems that do not keep it from serving."""


def readiness(url: str, *, ca_file: Path | None = None, timeout_s: float = 5.0) -> Readiness:
    """Query `/readyz`, without a token.

    Raises:
        ServerUnreachable, UnexpectedAnswer, NoPlace: as for `Client`.
    """
    check_address(url)
    verify = trusting(ca_file) if ca_file else True
    try:
        with httpx.Client(verify=verify, timeout=timeout_s, trust_env=not is_loopback(url)) as client:
            response = client.get(f"{url.rstrip('/')}/readyz")
    except httpx.TransportError as error:
        raise ServerUnreachable(f"{url}: {str(error) or type(error).__name__}") from error
    try:
        return msgspec.json.decode(response.content, type=Readiness)
    except msgspec.DecodeError as error:
        raise UnexpectedAnswer(response.status_code, response.text) from error
