"""Authentication of every request: GraphQL, REST, sockets and pages.

Accepted credentials: the server's own token (a file that only its owner can read; its holder is the first admin), an
API key, a token of an identity provider, or a browser's cookie that refers to one of these.

A cookie is signed with the server's token, which all servers share, so it survives restarts and becomes void with the
token. It contains no secret: whether its key is still valid, and whether its sign-in was ended by signing out, is
checked on every request. A login code signs one browser in, once, within 15 minutes, at any server of the cluster.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, Protocol

from itsdangerous import BadSignature, TimestampSigner
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import HTTPConnection

from aliquot.api.encoding import request_id_of
from aliquot.service.state.identities import AuthenticatedCaller, Identities
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.identity.accounts import SIGN_IN_PREFIX, Role
from aliquot_schema.ids import KeyId, UserId
from aliquot_schema.requests import Caller

COOKIE: Final = "aliquot_session"
COOKIE_S: Final = 30 * 86_400
_NUMBER_CHARS: Final = 16
_NUMBER_SEPARATOR: Final = "~"
"""Occurs in no key id."""
_COOKIE_CHARS_MAX: Final = 3900
"""Browsers drop cookies of more than 4,096 characters, name and attributes included."""
_TOO_MANY_PROJECTS: Final = (
    "Your groups at the identity provider give you more projects than fit into the browser's cookie. Ask an admin to "
    "give projects to fewer groups (`oidc-projects`), or sign in with an API key."
)


class CookieContent(Struct, frozen=True, kw_only=True):
    """What a valid cookie refers to."""

    key_id: KeyId | None
    """None = the server's own token."""
    sign_in_id: KeyId
    """Identifies the sign-in that made the cookie."""


class Cookies:
    """Signs and verifies the cookies of browsers, and login codes: `<key id>~<random number>.<time>.<signature>`, made
    by itsdangerous.

    The key id is empty for the holder of the server's token. The random number tells sign-ins of one second apart.

    Args:
        secret: the server's token.
        now: seconds since the epoch.
        purpose: what is signed for one purpose is not valid for another.
        valid_s: how long it is valid, in seconds.
    """

    def __init__(
        self, secret: bytes, *, now: Callable[[], float], purpose: str = "aliquot cookie", valid_s: float = COOKIE_S
    ) -> None:
        self._signer = _ClockSigner(secret, now=now, purpose=purpose)
        self._now = now
        self._valid_s = valid_s

    def new(self, key_id: KeyId | None) -> str:
        """A cookie valid for `valid_s` seconds, or until its key ends.

        Raises:
            Unauthenticated: browsers would not keep it, because the identity provider names too many projects.
        """
        number = secrets.token_urlsafe(_NUMBER_CHARS)[:_NUMBER_CHARS]
        cookie = self._signer.sign(f"{key_id or ''}{_NUMBER_SEPARATOR}{number}").decode()
        if len(cookie) > _COOKIE_CHARS_MAX:
            raise Unauthenticated(_TOO_MANY_PROJECTS)
        return cookie

    def read(self, cookie: str) -> CookieContent | None:
        """The content of a cookie; None if no server of the cluster signed it, or it is older than `valid_s`."""
        try:
            signed, signed_at = self._signer.unsign(cookie, return_timestamp=True)
        except BadSignature:
            return None
        # Not `max_age`, which also rejects a cookie of a server whose clock is slightly ahead of this one's.
        if signed_at.timestamp() + self._valid_s <= self._now():
            return None
        # Of the signed text, not of the cookie: several spellings of one signature are valid.
        digest = sha256(f"{signed.decode()} {signed_at.timestamp()}".encode()).hexdigest()
        key_id, _, _ = signed.decode().partition(_NUMBER_SEPARATOR)
        return CookieContent(key_id=KeyId(key_id) if key_id else None, sign_in_id=KeyId(SIGN_IN_PREFIX + digest[:32]))


class _ClockSigner(TimestampSigner):
    """A signer with a clock of its own."""

    def __init__(self, secret: bytes, *, now: Callable[[], float], purpose: str) -> None:
        super().__init__(secret, salt=purpose, key_derivation="hmac", digest_method=sha256)
        self._now = now

    def get_timestamp(self) -> int:
        return int(self._now())


CODE_S: Final = 15 * 60.0
TOKEN_CHARS_MIN: Final = 16


class ExternalAuthenticator(Protocol):
    """Authenticator for tokens of an identity provider."""

    async def resolve(self, text: str) -> None:
        """Validate a token, which may need a network request; `bearer_of` then knows the result. Never raises."""

    def bearer_of(self, text: str, *, now_us: int) -> AuthenticatedCaller | None:
        """The bearer of a validated token; None when the text is not such a token. Raises Unauthenticated."""

    def bearer(self, reference: KeyId, *, now_us: int) -> AuthenticatedCaller | None:
        """The current bearer behind a reference; None when access has ended."""


class TokenAuth:
    """Authenticates by the server's token, API keys, provider tokens and cookies.

    Args:
        token: the server's own; at least 16 characters.
        user: the user that it stands for.
        source: where the token is found, for error messages: `the file /path/token`.
        people: users and keys, as of the latest event.
        door: for tokens of an identity provider; None = there is none.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        token: str,
        user: UserId,
        *,
        source: str = "the server's token file",
        people: Identities | None = None,
        door: ExternalAuthenticator | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if len(token) < TOKEN_CHARS_MIN:
            raise ValueError(f"the server's token needs at least {TOKEN_CHARS_MIN} characters")
        self._token = token.encode()
        self._admin = AuthenticatedCaller(user=user, role=Role.ADMIN)
        self._source = source
        self._people = people or Identities()
        self._door = door
        self._now = now
        self._cookies = Cookies(self._token, now=now)
        self._codes = Cookies(self._token, now=now, purpose="aliquot login code", valid_s=CODE_S)

    def authenticate(self, request: HTTPConnection) -> Caller:
        """The caller of a request. All interfaces use this method.

        Raises:
            Unauthenticated: no credentials were sent, or they are not valid; answer 401.
        """
        bearer = self.of_headers(request.headers.get("authorization"), request.cookies)
        return caller_of(bearer, request_id=request_id_of(request))

    async def resolve(self, authorization: str | None) -> None:
        """Validate a provider token ahead of the other methods, which cannot wait."""
        if self._door is not None and authorization is not None:
            _, _, text = authorization.partition(" ")
            await self._door.resolve(text.strip())

    async def resolve_connection(self, payload: Mapping[str, object]) -> None:
        """Like `resolve`, for `of_connection`."""
        await self.resolve(_authorization_of(payload))

    def of_headers(self, authorization: str | None, cookies: Mapping[str, str]) -> AuthenticatedCaller:
        """The bearer of an HTTP request.

        Raises:
            Unauthenticated: neither a valid token nor a valid cookie was sent.
        """
        if authorization is not None:
            return self.of_authorization(authorization)
        cookie = cookies.get(COOKIE)
        content = None if cookie is None else self._cookies.read(cookie)
        found = None if content is None else self.holder(content.key_id, sign_in_id=content.sign_in_id)
        if found is None:
            raise self._refusal("No valid cookie was sent." if cookie is not None else "No token was sent.")
        return found

    def of_connection(self, payload: Mapping[str, object]) -> AuthenticatedCaller:
        """The bearer of a WebSocket, by the payload of connection_init: `authorization`, or `token` alone.

        Raises:
            Unauthenticated: the payload has no valid token.
        """
        authorization = _authorization_of(payload)
        if authorization is None:
            raise self._refusal("No token was sent.")
        return self.of_authorization(authorization)

    def of_authorization(self, authorization: str) -> AuthenticatedCaller:
        """The bearer of an Authorization header.

        Raises:
            Unauthenticated: it is not `AuthenticatedCaller` with a valid token or key.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise self._refusal("The Authorization header does not have the scheme Bearer.")
        found = self._bearer_of(token.strip())
        if found is None:
            raise self._refusal("The token is neither the server's token nor a valid key.")
        return found

    def of_text(self, text: str) -> AuthenticatedCaller:
        """The bearer of a token or key.

        Raises:
            Unauthenticated: it is not valid.
        """
        found = self._bearer_of(text)
        if found is None:
            raise Unauthenticated("This is neither the server's token nor a valid key.")
        return found

    def holder(self, key_id: KeyId | None, *, sign_in_id: KeyId | None = None) -> AuthenticatedCaller | None:
        """The current holder of a key; None when the key is no longer valid, or the sign-in was ended. Without a key:
        the holder of the server's token."""
        if sign_in_id is not None:
            found = None if self._people.has_ended(sign_in_id) else self.holder(key_id)
            return None if found is None else replace(found, sign_in_id=sign_in_id)
        if key_id is None:
            return self._admin
        found = self._people.bearer(key_id, now_us=self._now_us())
        return self._door.bearer(key_id, now_us=self._now_us()) if found is None and self._door else found

    def new_login_code(self, bearer: AuthenticatedCaller | None = None) -> str:
        """A code that signs one browser in, once, within 15 minutes, as `bearer`; None = as the holder of the
        server's token.

        Raises:
            Unauthenticated: the identity provider names too many projects.
        """
        return self._codes.new(None if bearer is None else bearer.key_id)

    def of_code(self, code: str) -> AuthenticatedCaller:
        """The bearer of a login code, with the code as their sign-in, which ends when the code is used.

        Raises:
            Unauthenticated: the code is not valid, used or expired, or its key is no longer valid.
        """
        content = self._codes.read(code)
        found = None if content is None else self.holder(content.key_id, sign_in_id=content.sign_in_id)
        if found is None:
            raise self._refusal("This address was already used or has expired.")
        return found

    def redeem(self, code: str) -> str:
        """The cookie for a login code; see `of_code` for errors."""
        return self._cookies.new(self.of_code(code).key_id)

    def cookie_for(self, text: str) -> str:
        """The cookie for a token or key.

        Raises:
            Unauthenticated: it is not valid.
        """
        return self._cookies.new(self.of_text(text).key_id)

    def cookie_of(self, key_id: KeyId) -> str:
        """The cookie for a key, or for the reference of a provider's sign-in.

        Raises:
            Unauthenticated: it gives no access any more.
        """
        if self.holder(key_id) is None:
            raise Unauthenticated("Your access has ended; ask an admin.")
        return self._cookies.new(key_id)

    def signer(self, purpose: str) -> TimestampSigner:
        """A signer whose signatures are valid for one purpose, on all servers of the cluster."""
        return _ClockSigner(self._token, now=self._now, purpose=purpose)

    def seconds_to(self, at_us: int) -> float:
        """Seconds until a time, by the clock that keys expire by."""
        return (at_us - self._now_us()) / 1e6

    def _bearer_of(self, text: str) -> AuthenticatedCaller | None:
        if hmac.compare_digest(text.encode(), self._token):
            return self._admin
        found = self._people.shown(text, now_us=self._now_us())
        return self._door.bearer_of(text, now_us=self._now_us()) if found is None and self._door is not None else found

    def _now_us(self) -> int:
        return int(self._now() * 1e6)

    def _refusal(self, what: str) -> Unauthenticated:
        return Unauthenticated(
            f"{what} Send `Authorization: Bearer TOKEN` with one of your API keys, or the token from {self._source}; "
            "in a browser, open /login, or POST /login-code with that header and open the path in the answer."
        )


def caller_of(bearer: AuthenticatedCaller, *, request_id: str) -> Caller:
    """The caller that use cases get for an authenticated bearer."""
    return Caller(
        user=bearer.user,
        request_id=request_id,
        role=bearer.role,
        own_role=bearer.own_role,
        projects=bearer.projects,
        key_id=bearer.key_id,
        sign_in_id=bearer.sign_in_id,
    )


def _authorization_of(payload: Mapping[str, object]) -> str | None:
    """The credentials in a connection_init, as an Authorization header."""
    authorization = next((value for key, value in payload.items() if key.lower() == "authorization"), None)
    if isinstance(authorization, str):
        return authorization
    token = payload.get("token")
    return f"Bearer {token}" if isinstance(token, str) else None
