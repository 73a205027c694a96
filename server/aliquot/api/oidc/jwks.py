"""JWKS cache: the provider's signing keys, found by discovery and fetched again for unknown key ids.

Source: OpenID Connect Discovery 1.0; RFC 7517.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from aliquot.api.oidc.settings import is_safe
from aliquot_schema.errors import Unauthenticated

log: Final = logging.getLogger("aliquot.api")

DISCOVERY: Final = "/.well-known/openid-configuration"
KEPT_S: Final = 3600.0
"""Age at which keys are fetched again, so that withdrawn keys disappear."""
STALE_S: Final = 24 * 3600.0
"""Longest use of keys while the provider does not answer."""
PAUSE_S: Final = 30.0
"""Minimum interval between requests to the provider, whatever tokens arrive."""
ANSWER_BYTES_MAX: Final = 1024 * 1024
ANSWER_S_MAX: Final = 10.0
_HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity"}
"""Compressed answers are not read: a small one can be decoded to far more than `ANSWER_BYTES_MAX`."""
KINDS: Final = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""(kty, crv) per accepted algorithm, none of them symmetric. A key is used only for its own type, so a public key
can never serve as an HMAC secret."""


class ProviderKeys:
    """Keys of one provider.

    Args:
        fetch: returns the content of a URL, or raises `httpx.HTTPError`.
        monotonic: seconds from an arbitrary start.
    """

    def __init__(
        self,
        issuer: str,
        *,
        fetch: Callable[[str], Awaitable[bytes]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetched
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._keys: list[dict[str, Any]] = []
        self._got_at: float | None = None
        self._asked_at: float | None = None

    async def key(self, kid: str | None, algorithm: str) -> PyJWK:
        """The key that a token names, or the only suitable one.

        Raises:
            Unauthenticated: there is none, or the provider does not answer.
        """
        found = self._current(kid, algorithm)
        # One request fetches for all; callers with a known key do not wait for a slow provider.
        if found is None or (self._age_s() > KEPT_S and not self._lock.locked()):
            async with self._lock:
                await self._refresh()
            found = self._current(kid, algorithm)
        if found is None and self._age_s() > STALE_S:
            raise Unauthenticated("The keys of the identity provider cannot be fetched now; try again in a minute.")
        if found is None:
            raise Unauthenticated("The token is signed with a key that the identity provider does not publish.")
        return found

    def _age_s(self) -> float:
        return float("inf") if self._got_at is None else self._monotonic() - self._got_at

    def _current(self, kid: str | None, algorithm: str) -> PyJWK | None:
        return None if self._age_s() > STALE_S else self._known(kid, algorithm)

    def _known(self, kid: str | None, algorithm: str) -> PyJWK | None:
        usable = [key for key in self._keys if _is_usable(key, algorithm) and kid in (None, key.get("kid"))]
        if len(usable) != 1:
            return None
        try:
            return PyJWK(usable[0], algorithm)
        except PyJWTError as error:
            log.warning("a key of %s cannot be used: %s", self._issuer, error)
            return None

    async def _refresh(self) -> None:
        """Fetch the keys, unless that was tried within `PAUSE_S`."""
        now = self._monotonic()
        if self._asked_at is not None and now - self._asked_at < PAUSE_S:
            return
        self._asked_at = now
        try:
            self._keys = await self._fetch_keys()
            self._got_at = self._monotonic()
        except (httpx.HTTPError, ValueError) as error:
            log.error("the keys of %s cannot be fetched: %r", self._issuer, error)

    async def _fetch_keys(self) -> list[dict[str, Any]]:
        uri = (await discovered(self._issuer, self._fetch)).get("jwks_uri")
        if not isinstance(uri, str) or not is_safe(uri):
            raise ValueError("it has no jwks_uri with https")
        keys = json_object(await self._fetch(uri)).get("keys")
        if not isinstance(keys, list):
            raise ValueError("its jwks_uri lists no keys")
        return [key for key in keys if isinstance(key, dict)]


async def discovered(issuer: str, fetch: Callable[[str], Awaitable[bytes]]) -> dict[str, Any]:
    """The provider's description of itself.

    Raises:
        httpx.HTTPError, ValueError: it does not answer, or describes another issuer.
    """
    found = json_object(await fetch(issuer.rstrip("/") + DISCOVERY))
    if found.get("issuer") != issuer:
        raise ValueError(f"its issuer is {str(found.get('issuer'))[:200]!r}; set oidc-issuer to exactly that")
    return found


async def fetched(address: str, *, form: Mapping[str, str] | None = None, authorization: str | None = None) -> bytes:
    """Content of a URL, with bounded size and time, without redirects.

    Args:
        form: sent by POST; None = a GET.
        authorization: the header of this name.
    Raises:
        httpx.HTTPError, ValueError: there is no usable content.
    """
    headers = _HEADERS if authorization is None else _HEADERS | {"authorization": authorization}
    body = b""
    try:
        async with (
            asyncio.timeout(ANSWER_S_MAX),
            httpx.AsyncClient(timeout=ANSWER_S_MAX) as client,
            client.stream("GET" if form is None else "POST", address, headers=headers, data=form) as answer,
        ):
            if answer.status_code != 200:
                raise ValueError(f"{address} answers {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise ValueError(f"{address} answers compressed, although that was not asked for")
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise ValueError(f"{address} answers more than {ANSWER_BYTES_MAX} bytes")
    except TimeoutError:
        raise ValueError(f"{address} does not answer") from None
    except httpx.InvalidURL as error:
        raise ValueError(f"{address!r} is not a URL: {error}") from None
    return body


def _is_usable(key: dict[str, Any], algorithm: str) -> bool:
    """Whether a key is a signing key for this algorithm."""
    kind, curve = KINDS[algorithm]
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("alg") in (None, algorithm)
        and key.get("use") in (None, "sig")
    )


def json_object(text: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ValueError: it is none.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("the answer is not a JSON object")
    return found
