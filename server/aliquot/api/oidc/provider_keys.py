"""The keys by which a provider signs: found by discovery, kept, and looked for again when one is not among them.

Source: OpenID Connect Discovery 1.0; RFC 7517.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from aliquot.api.oidc.oidc_settings import is_safe
from aliquot_schema.errors import Unauthenticated

log: Final = logging.getLogger("aliquot.api")

DISCOVERY: Final = "/.well-known/openid-configuration"
KEPT_S: Final = 3600.0
"""After that they are looked for again, so that one which is withdrawn goes away."""
STALE_S: Final = 24 * 3600.0
"""While the provider does not answer, its keys are believed for so long."""
PAUSE_S: Final = 30.0
"""The provider is asked no more often, whatever is shown here."""
ANSWER_BYTES_MAX: Final = 1024 * 1024
ANSWER_S_MAX: Final = 10.0
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
"""(kty, crv) of the algorithms that are taken, none of which the provider shares a secret for. A key is used for one
of its own kind alone: a public key never becomes the secret of another algorithm."""


class ProviderKeys:
    """Keys of one provider.

    Args:
        fetch: gets what is at an address, or raises `httpx.HTTPError`.
        monotonic: seconds from some start.
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
        """The key that a token names, or the only one that it can mean.

        Raises:
            Unauthenticated: there is none, or the provider cannot be asked.
        """
        found = self._believed(kid, algorithm)
        # One asks for all: whoever's key is known waits for no provider that is slow to answer.
        if found is None or (self._age_s() > KEPT_S and not self._lock.locked()):
            async with self._lock:
                await self._refresh()
            found = self._believed(kid, algorithm)
        if found is None and self._age_s() > STALE_S:
            raise Unauthenticated("The identity provider cannot be asked for its keys now; try again in a minute.")
        if found is None:
            raise Unauthenticated("The token is signed by a key that the identity provider does not have.")
        return found

    def _age_s(self) -> float:
        return float("inf") if self._got_at is None else self._monotonic() - self._got_at

    def _believed(self, kid: str | None, algorithm: str) -> PyJWK | None:
        return None if self._age_s() > STALE_S else self._known(kid, algorithm)

    def _known(self, kid: str | None, algorithm: str) -> PyJWK | None:
        able = [key for key in self._keys if _can(key, algorithm) and kid in (None, key.get("kid"))]
        if len(able) != 1:
            return None
        try:
            return PyJWK(able[0], algorithm)
        except PyJWTError as error:
            log.warning("a key of %s cannot be used: %s", self._issuer, error)
            return None

    async def _refresh(self) -> None:
        """Ask the provider, unless that was done just now."""
        now = self._monotonic()
        if self._asked_at is not None and now - self._asked_at < PAUSE_S:
            return
        self._asked_at = now
        try:
            self._keys = await self._asked()
            self._got_at = self._monotonic()
        except (httpx.HTTPError, ValueError) as error:
            log.error("%s cannot be asked for its keys: %r", self._issuer, error)

    async def _asked(self) -> list[dict[str, Any]]:
        told = _object(await self._fetch(self._issuer.rstrip("/") + DISCOVERY))
        if told.get("issuer") != self._issuer:
            raise ValueError(f"it calls itself {str(told.get('issuer'))[:200]!r}; set oidc-issuer to the very same")
        place = told.get("jwks_uri")
        if not isinstance(place, str) or not is_safe(place):
            raise ValueError("it does not say safely where its keys are")
        keys = _object(await self._fetch(place)).get("keys")
        if not isinstance(keys, list):
            raise ValueError("it lists no keys")
        return [key for key in keys if isinstance(key, dict)]


async def fetched(address: str) -> bytes:
    """What is there, of a size and within a time that are bounded; nobody is followed elsewhere.

    Raises:
        httpx.HTTPError, ValueError: there is nothing that can be used.
    """
    body = b""
    try:
        async with (
            asyncio.timeout(ANSWER_S_MAX),
            httpx.AsyncClient(timeout=ANSWER_S_MAX) as client,
            client.stream("GET", address, headers={"accept": "application/json"}) as answer,
        ):
            if answer.status_code != 200:
                raise ValueError(f"{address} answers {answer.status_code}")
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise ValueError(f"{address} answers too much")
    except TimeoutError:
        raise ValueError(f"{address} does not answer") from None
    except httpx.InvalidURL as error:
        raise ValueError(f"{address!r} is no address: {error}") from None
    return body


def _can(key: dict[str, Any], algorithm: str) -> bool:
    """Whether a key is for signing, and by this algorithm."""
    kind, curve = KINDS[algorithm]
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("alg") in (None, algorithm)
        and key.get("use") in (None, "sig")
    )


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("the answer is no object")
    return found
