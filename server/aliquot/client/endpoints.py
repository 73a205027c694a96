"""Endpoints beside the API: readiness, and the one-time address that signs a browser in."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec

from aliquot.client.config import Place
from aliquot.client.errors import Refused, ServerUnreachable
from aliquot.client.requests import check_address, decoded, is_loopback, tls_context
from aliquot_schema.errors import Unauthenticated

LOGIN_S_MAX = 10.0


class HealthProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a server."""

    code: str
    message: str


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `/readyz`."""

    ready: bool
    missing: tuple[str, ...]
    """Codes of the reasons why it cannot serve."""
    warnings: tuple[str, ...]
    """Codes of problems that do not keep it from serving."""
    details: tuple[HealthProblem, ...] = ()
    """All of them with their texts, for callers with a token."""


class _Refusal(msgspec.Struct, frozen=True):
    detail: str


class _LoginCode(msgspec.Struct, frozen=True):
    path: str


def readiness(url: str, *, ca_file: Path | None = None, token: str | None = None, timeout_s: float = 5.0) -> Readiness:
    """Query `/readyz`.

    Args:
        token: None = without the details.
    Raises:
        ServerUnreachable, UnexpectedAnswer, NoPlace: as for `Client`.
    """
    headers = None if token is None else {"authorization": f"Bearer {token}"}
    return decoded(_answer("GET", url, "/readyz", ca_file=ca_file, timeout_s=timeout_s, headers=headers), Readiness)


def login_address(place: Place) -> str:
    """A URL that signs one browser in, once, within 15 minutes, as the holder of the place's token.

    Raises:
        ServerUnreachable, UnexpectedAnswer, NoPlace: as for `Client`.
        Unauthenticated: the token is not accepted.
    """
    response = _authenticated("POST", place, "/login-code")
    return f"{place.url.rstrip('/')}{decoded(response, _LoginCode).path}"


def app_address(place: Place, path: str) -> str:
    """A URL that signs one browser in to an app of a session, once, within 30 seconds.

    Args:
        path: `url` of the session's service.
    Raises:
        ServerUnreachable, UnexpectedAnswer, NoPlace: as for `Client`.
        Unauthenticated: the token is not accepted.
        Refused: the session does not run, or belongs to another user.
    """
    response = _authenticated("GET", place, path)
    if response.status_code == httpx.codes.SEE_OTHER:
        return response.headers["location"]
    refused = decoded(response, _Refusal)
    raise Refused({"__typename": "Forbidden", "message": refused.detail})


def _authenticated(method: str, place: Place, path: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {place.token}", "accept": "application/json"}
    response = _answer(method, place.url, path, ca_file=place.ca_file, timeout_s=LOGIN_S_MAX, headers=headers)
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise Unauthenticated("the server does not accept this token or key")
    return response


def _answer(
    method: str,
    url: str,
    path: str,
    *,
    ca_file: Path | None,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    check_address(url)
    verify = tls_context(ca_file) if ca_file else True
    try:
        with httpx.Client(verify=verify, timeout=timeout_s, trust_env=not is_loopback(url)) as client:
            return client.request(method, f"{url.rstrip('/')}{path}", headers=headers)
    except httpx.TransportError as error:
        raise ServerUnreachable(f"{url}: {str(error) or type(error).__name__}") from error
