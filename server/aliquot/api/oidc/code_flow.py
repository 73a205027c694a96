"""Authorization code flow: signs a browser in at the identity provider, with PKCE, a state and a nonce.

What the server must remember until the browser comes back is in a signed cookie, so that any server of the cluster can
finish what another one began.

Source: OpenID Connect Core 1.0, 3.1; RFC 7636 (PKCE); RFC 9207 (issuer in the answer); RFC 9700.
"""

import asyncio
import base64
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec
from itsdangerous import BadSignature, TimestampSigner
from msgspec import Struct

from aliquot.api.oidc.jwks import discovered, fetched, json_object
from aliquot.api.oidc.settings import is_safe
from aliquot.api.oidc.tokens import OidcAuthenticator, Tokens
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.ids import KeyId

log: Final = logging.getLogger("aliquot.api")

BEGUN_S_MAX: Final = 600
"""A sign-in that was begun must be finished within this time, in seconds."""
ENDPOINTS_KEPT_S: Final = 3600.0
PAUSE_S: Final = 10.0
"""Minimum interval between two requests for the provider's addresses, however often people try to sign in."""
EXCHANGES_MAX: Final = 8
"""Codes that are exchanged at the same time."""
SCOPE: Final = "openid profile email"


class _PendingSignIn(msgspec.Struct, frozen=True, array_like=True):
    """What the cookie of a sign-in holds."""

    state: str
    nonce: str
    verifier: str
    next_path: str


class Endpoints(Struct, frozen=True, kw_only=True):
    """Addresses of a provider."""

    authorization: str
    token: str
    userinfo: str | None


class Discovery:
    """The provider's addresses, from its discovery document."""

    def __init__(self, issuer: str, *, fetch: Callable[[str], Awaitable[bytes]] = fetched) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._known: Endpoints | None = None
        self._due_at = -ENDPOINTS_KEPT_S

    async def endpoints(self) -> Endpoints:
        """The addresses; asked for again after an hour, and until then if the provider did not answer.

        Raises:
            Unauthenticated: the provider does not answer, or names none.
        """
        async with self._lock:
            if time.monotonic() >= self._due_at:
                self._due_at = time.monotonic() + PAUSE_S
                await self._refresh()
        if self._known is None:
            raise Unauthenticated("The identity provider cannot be reached now. Try again in a minute.")
        return self._known

    async def _refresh(self) -> None:
        try:
            found = await discovered(self._issuer, self._fetch)
            authorization, token = (_address(found, f"{name}_endpoint") for name in ("authorization", "token"))
            if authorization is None or token is None:
                raise ValueError("it has no authorization_endpoint and token_endpoint with https")
        except (httpx.HTTPError, ValueError) as error:
            log.error("the endpoints of %s cannot be fetched: %r", self._issuer, error)
            return
        userinfo = _address(found, "userinfo_endpoint")
        self._known = Endpoints(authorization=authorization, token=token, userinfo=userinfo)
        self._due_at = time.monotonic() + ENDPOINTS_KEPT_S


def _address(found: Mapping[str, Any], name: str) -> str | None:
    address = found.get(name)
    return address if isinstance(address, str) and is_safe(address) else None


class FlowStart(Struct, frozen=True, kw_only=True):
    """A sign-in at the identity provider that begins."""

    address: str
    """The provider's page."""
    cookie: str
    """Kept by the browser until it comes back."""


class CompletedSignIn(Struct, frozen=True, kw_only=True):
    """A sign-in at the identity provider that has succeeded."""

    key_id: KeyId
    next_path: str
    """The page to show, on this server."""


class CodeFlow:
    """Sign-in in the browser.

    Args:
        tokens: verifies identity tokens, whose audience is the client.
        client_secret: None = a public client.
        secret: signs cookies; the same on all servers of a cluster.
        session_s: how long a sign-in lasts.
        fetch: like `jwks.fetched`.
    """

    def __init__(
        self,
        discovery: Discovery,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        tokens: Tokens,
        door: OidcAuthenticator,
        secret: bytes,
        session_s: float,
        fetch: Callable[..., Awaitable[bytes]] = fetched,
    ) -> None:
        self.name = urlsplit(issuer).netloc
        self._discovery = discovery
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._tokens = tokens
        self._door = door
        self._signer = TimestampSigner(secret, salt="aliquot oidc", key_derivation="hmac", digest_method=sha256)
        self._session_s = session_s
        self._fetch = fetch
        self._exchanges = asyncio.Semaphore(EXCHANGES_MAX)

    async def begin(self, *, redirect_uri: str, next_path: str) -> FlowStart:
        """The provider's page to send the browser to, and the cookie that it keeps meanwhile.

        Args:
            next_path: the page to show afterwards, on this server.
        Raises:
            Unauthenticated: the provider cannot be reached.
        """
        address = (await self._discovery.endpoints()).authorization
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        begun = _PendingSignIn(state, nonce, verifier, next_path)
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPE,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        body = base64.urlsafe_b64encode(msgspec.json.encode(begun))
        joint = "&" if urlsplit(address).query else "?"
        return FlowStart(address=f"{address}{joint}{urlencode(asked)}", cookie=self._signer.sign(body).decode())

    async def finish(self, answer: Mapping[str, str], *, cookie: str | None, redirect_uri: str) -> CompletedSignIn:
        """Exchange the code in the provider's answer for the user's identity.

        Args:
            answer: query of the address that the provider sent the browser to.
            redirect_uri: the same as at `begin`.
        Raises:
            Unauthenticated: the answer is not for this browser, is too late, or is a refusal; or the user has no
                access.
        """
        begun = self._begun(cookie)
        if begun is None or not hmac.compare_digest(begun.state.encode(), answer.get("state", "").encode()):
            raise Unauthenticated("This sign-in was not begun in this browser, or more than 10 minutes ago. Try again.")
        if answer.get("iss", self._issuer) != self._issuer:
            raise Unauthenticated("The answer comes from another identity provider.")
        if "error" in answer or not answer.get("code"):
            words = answer.get("error_description") or answer.get("error") or "no code was sent"
            raise Unauthenticated(f"The identity provider did not sign you in: {words[:200]}.")
        answered = await self._exchanged(answer["code"], begun, redirect_uri)
        claims = await self._tokens.claims(_token(answered, "id_token"))
        if claims.get("nonce") != begun.nonce or claims.get("azp", self._client_id) != self._client_id:
            raise Unauthenticated("The identity provider's token belongs to another sign-in. Try again.")
        claims = await self._described(answered, claims)
        key_id = await self._door.admit(claims, expires_us=int((time.time() + self._session_s) * 1e6))
        return CompletedSignIn(key_id=key_id, next_path=begun.next_path)

    def _begun(self, cookie: str | None) -> _PendingSignIn | None:
        try:
            # Not `max_age`, which also rejects a cookie of a server whose clock is slightly ahead of this one's.
            body, signed_at = self._signer.unsign(cookie or "", return_timestamp=True)
            if signed_at.timestamp() + BEGUN_S_MAX <= time.time():
                return None
            return msgspec.json.decode(base64.urlsafe_b64decode(body), type=_PendingSignIn)
        except (BadSignature, ValueError, msgspec.MsgspecError):
            return None

    async def _exchanged(self, code: str, begun: _PendingSignIn, redirect_uri: str) -> dict[str, Any]:
        address = (await self._discovery.endpoints()).token
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": begun.verifier,
            "client_id": self._client_id,
        }
        try:
            async with self._exchanges:
                return json_object(await self._fetch(address, form=form, authorization=self._basic()))
        except (httpx.HTTPError, ValueError) as error:
            log.error("a code cannot be exchanged at %s: %r", address, error)
            raise Unauthenticated(
                "The identity provider did not accept the exchange of its code; the server's log says why. Try again."
            ) from None

    def _basic(self) -> str | None:
        """The client's credentials, both encoded as in a form. Source: RFC 6749, 2.3.1."""
        if self._client_secret is None:
            return None
        pair = f"{quote_plus(self._client_id)}:{quote_plus(self._client_secret)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    async def _described(self, answered: Mapping[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
        """The claims, with those that the provider tells only at its userinfo endpoint. Source: OpenID Connect Core
        1.0, 5.3 and 5.4."""
        address = (await self._discovery.endpoints()).userinfo
        if address is None or not isinstance(answered.get("access_token"), str):
            return claims
        try:
            async with self._exchanges:
                more = json_object(await self._fetch(address, authorization=f"Bearer {answered['access_token']}"))
        except (httpx.HTTPError, ValueError) as error:
            log.warning("the claims at %s cannot be read: %r", address, error)
            return claims
        return {**more, **claims} if more.get("sub") == claims["sub"] else claims


def _token(answered: Mapping[str, Any], name: str) -> str:
    token = answered.get(name)
    if not isinstance(token, str):
        raise Unauthenticated("The identity provider's answer has no identity token.")
    return token
