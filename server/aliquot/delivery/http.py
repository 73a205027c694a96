"""HTTP delivery: one POST to a receiver. Redirects are not followed and no proxy is used.
Link-local addresses are refused, because clouds serve the credentials of a machine there.

Webhooks are signed in the header `Aliquot-Signature: t=<seconds>,v1=<hex>`. `v1` is HMAC-SHA256, with the key in the
receiver's key file, of `<seconds>.<body>`: the time in seconds since 1970 UTC as in `t=`, a full stop, and the body as
it was sent, byte for byte. To verify it, a receiver computes the same with its copy of the key, compares in constant
time, and rejects signatures older than a few minutes, which prevents replay.
"""

import asyncio
import hmac
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import httpx

from aliquot.delivery.receivers import WebTable, check_url
from aliquot.delivery.secret_files import read_secret
from aliquot.service.alerts.context import NotDelivered

SIGNATURE_HEADER: Final = "Aliquot-Signature"

METADATA_IPV6: Final = ip_address("fd00:ec2::254")
"""Source: Amazon EC2 User Guide, instance metadata service."""

_LINK_LOCAL: Final = "the host of the configured URL has a link-local address (169.254.0.0/16, fe80::/10)"
_HEADERS: Final = {"Content-Type": "application/json", "User-Agent": "aliquot"}


def signature(body: bytes, *, key: str, at_s: int) -> str:
    """The value of the signature header."""
    signed = hmac.new(key.encode(), f"{at_s}.".encode() + body, sha256).hexdigest()
    return f"t={at_s},v1={signed}"


def tls_context(ca_file: Path | None, *, protocol: str) -> ssl.SSLContext:
    """A TLS context, cached per protocol and per version of the CA file: loading all authorities takes too long to
    repeat for each message. The clients of the protocols modify their context.

    Raises:
        NotDelivered: the file cannot be read.
    """
    try:
        return _context(ca_file, protocol, 0 if ca_file is None else ca_file.stat().st_mtime_ns)
    except (OSError, ssl.SSLError) as error:
        raise NotDelivered(f"ca-file {ca_file} cannot be read: {type(error).__name__}") from None


@lru_cache(maxsize=32)
def _context(ca_file: Path | None, _protocol: str, _changed_ns: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


def connection_failure(error: BaseException) -> str:
    """Why a connection failed, without the text of the error, which can hold a secret URL."""
    return f"connection failed: {next(filter(None, map(_cause, _causes(error))), type(error).__name__)}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _cause(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError(verify_code=9 | 10):
            return "its certificate has expired or is not valid yet"
        case ssl.SSLCertVerificationError(verify_code=62 | 64):
            return "its certificate is of another host"
        case ssl.SSLCertVerificationError():
            return "its certificate is not trusted; ca-file names the authority to trust"
        case ssl.SSLError():
            return f"TLS: {error.reason}"
        case socket.gaierror():
            return "the name of the host cannot be resolved"
        case ConnectionRefusedError():
            return "refused; check that the receiver is running, and the port"
        case TimeoutError():
            return "no answer in time"
    return None


def is_link_local(address: str) -> bool:
    """Whether an IP address is link-local, written as IPv4 or in IPv6; the cloud's IPv6 address for metadata is too."""
    found = ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return (mapped or found).is_link_local or found == METADATA_IPV6


async def post(table: WebTable, body: bytes, *, key: str, headers: Mapping[str, str] | None = None) -> None:
    """Send JSON; returns when the receiver answered 2xx.

    Args:
        key: idempotency key of the message.
        headers: additional headers.
    Raises:
        NotDelivered: any other result. The text contains neither the URL nor the response, which can hold secrets.
    """
    sent = {**_HEADERS, "Idempotency-Key": key, **(headers or {})}
    url = table.url or read_secret(table.url_file or Path())
    try:
        tls = tls_context(table.ca_file, protocol="http")
        async with (
            # Limits the whole request: the time-outs of the client restart with every byte received.
            asyncio.timeout(table.timeout_s),
            httpx.AsyncClient(verify=tls, timeout=None, trust_env=False, follow_redirects=False) as client,
            client.stream("POST", await _checked(url), content=body, headers=sent, extensions=_TRACED) as answer,
        ):
            status, wait_s = answer.status_code, _wait_s(answer.headers.get("Retry-After", ""))
    except TimeoutError:
        raise NotDelivered(f"no answer within {table.timeout_s:g} s") from None
    except httpx.HTTPError as error:
        raise NotDelivered(connection_failure(error)) from None
    except (httpx.InvalidURL, ValueError):
        raise NotDelivered("the configured URL is not valid") from None
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDelivered(f"HTTP status {status}; redirects are not followed")
    raise NotDelivered(f"HTTP status {status}", is_final=status == 410, wait_s=wait_s)


def _wait_s(retry_after: str) -> float:
    """Seconds to wait by the header Retry-After, which holds them or a date (RFC 9110, 10.2.3); 0 without one."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


async def _checked(url: str) -> str:
    """The URL, if requests can be sent to it and its host has no link-local address.

    Raises:
        ValueError: see `check_url`. NotDelivered: it has one, or none can be found.
    """
    host = httpx.URL(check_url(url)).host
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotDelivered(connection_failure(error)) from None
    if any(is_link_local(str(place[0])) for *_, place in found):
        raise NotDelivered(_LINK_LOCAL)
    return url


async def _check_connected(event: str, facts: Mapping[str, Any]) -> None:
    """Refuse a connection to a link-local address before anything is sent: the name of a host may have got another
    address since it was checked."""
    if event != "connection.connect_tcp.complete":
        return
    stream = facts["return_value"]
    if is_link_local(str(stream.get_extra_info("server_addr")[0])):
        await stream.aclose()
        raise NotDelivered(_LINK_LOCAL)


_TRACED: Final = {"trace": _check_connected}
"""Source: https://www.encode.io/httpcore/extensions/, "trace"."""
