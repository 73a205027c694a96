"""Who is calling, for every face of the server: GraphQL, REST, sockets and pages.

A caller shows the server's own token, which is in a file that only its owner can read, or an API key, or a token of an
identity provider, or a browser's cookie, which stands for one of these. The holder of the server's token is the admin
with whom all begins.
"""

import hmac
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from starlette.requests import HTTPConnection

from aliquot.api.cookies import COOKIE, Cookies
from aliquot.api.login_codes import LoginCodes
from aliquot.api.request_ids import request_id_of
from aliquot.service.people import Bearer, People
from aliquot_schema.errors import Unauthenticated
from aliquot_schema.ids import KeyId, UserId
from aliquot_schema.requests import Caller
from aliquot_schema.roles import Role

TOKEN_CHARS_MIN: Final = 16


class Door(Protocol):
    """Lets people in by what somebody else vouches for: tokens of an identity provider."""

    async def look_at(self, text: str) -> None:
        """Have a text looked at, which may take a while, so that `shown` knows of it; never refuses."""

    def shown(self, text: str, *, now_us: int) -> Bearer | None:
        """Who shows a text that was looked at; None when it is no such token. Raises Unauthenticated."""

    def bearer(self, reference: KeyId, *, now_us: int) -> Bearer | None:
        """Who has come in before, under the id that stands for it; None when he may not be here any more."""


class TokenAuth:
    """The token, and the keys of users.

    Args:
        token: the server's own; at least 16 characters.
        user: who it stands for.
        source: where a person finds the token, in words for the refusal: `the file /path/token`.
        people: whose keys hold; they follow the log.
        door: for tokens of an identity provider; None = there is none.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        token: str,
        user: UserId,
        *,
        source: str = "the server's token file",
        people: People | None = None,
        door: Door | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if len(token) < TOKEN_CHARS_MIN:
            raise ValueError(f"a token has at least {TOKEN_CHARS_MIN} characters")
        self._token = token.encode()
        self._admin = Bearer(user=user, role=Role.ADMIN)
        self._source = source
        self._people = people or People()
        self._door = door
        self._now = now
        self._cookies = Cookies(self._token, now=now)
        self._codes = LoginCodes()

    def authenticate(self, request: HTTPConnection) -> Caller:
        """Who sent a request. The one place where this is found out, whichever face it came to.

        Raises:
            Unauthenticated: it does not say, or what it shows does not hold; answer 401.
        """
        bearer = self.of_headers(request.headers.get("authorization"), request.cookies)
        return caller_of(bearer, request_id=request_id_of(request))

    async def look_at(self, authorization: str | None) -> None:
        """Have what is shown looked at where that takes a while: before any of the others is called with it."""
        if self._door is not None and authorization is not None:
            _, _, text = authorization.partition(" ")
            await self._door.look_at(text.strip())

    async def look_at_connection(self, payload: Mapping[str, object]) -> None:
        """As `look_at`, for `of_connection`."""
        await self.look_at(_told(payload))

    def of_headers(self, authorization: str | None, cookies: Mapping[str, str]) -> Bearer:
        """Tell who sent a request.

        Raises:
            Unauthenticated: neither a valid token nor a valid cookie was sent.
        """
        if authorization is not None:
            return self.of_authorization(authorization)
        cookie = cookies.get(COOKIE)
        meant = None if cookie is None else self._cookies.read(cookie)
        found = None if meant is None else self.holder(meant[0])
        if found is None:
            raise self._refusal("No valid cookie was sent." if cookie is not None else "No token was sent.")
        return found

    def of_connection(self, payload: Mapping[str, object]) -> Bearer:
        """Tell who opened a WebSocket, by the payload of connection_init: `authorization`, or `token` alone.

        Raises:
            Unauthenticated: there is none, or it is not a valid one.
        """
        authorization = _told(payload)
        if authorization is None:
            raise self._refusal("No token was sent.")
        return self.of_authorization(authorization)

    def of_authorization(self, authorization: str) -> Bearer:
        """Tell who sent an Authorization header.

        Raises:
            Unauthenticated: it is not `Bearer` and a token or key that holds.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise self._refusal("The Authorization header is not of the kind Bearer.")
        found = self._shown(token.strip())
        if found is None:
            raise self._refusal("The token is neither the server's nor a key that holds.")
        return found

    def of_text(self, text: str) -> Bearer:
        """Tell who shows a token or a key.

        Raises:
            Unauthenticated: it is neither.
        """
        found = self._shown(text)
        if found is None:
            raise Unauthenticated("This is neither the server's token nor a key that holds.")
        return found

    def holder(self, key_id: KeyId | None) -> Bearer | None:
        """Who has a key, as it is now; None when it does not hold any more. Without a key it is the token's holder."""
        if key_id is None:
            return self._admin
        found = self._people.bearer(key_id, now_us=self._now_us())
        return self._door.bearer(key_id, now_us=self._now_us()) if found is None and self._door else found

    def new_login_code(self, bearer: Bearer | None = None) -> str:
        """Make a code that signs one browser in, once, within a quarter of an hour, as somebody who was let in; without
        one, as the holder of the server's token."""
        if bearer is None or bearer.key_id is None:
            return self._codes.new(None, owner="")
        return self._codes.new(bearer.key_id, owner=bearer.user)

    def redeem(self, code: str) -> str:
        """Take a code out of use, and give the cookie that it stands for.

        Raises:
            Unauthenticated: the code is unknown, used, or too old, or its key does not hold any more.
        """
        meant = self._codes.take(code)
        if meant is None or self.holder(meant[0]) is None:
            raise self._refusal("This address was used before, or is too old.")
        return self._cookies.new(meant[0])

    def cookie_for(self, text: str) -> str:
        """The cookie for who shows a token or a key.

        Raises:
            Unauthenticated: it is neither.
        """
        return self._cookies.new(self.of_text(text).key_id)

    def seconds_to(self, at_us: int) -> float:
        """How long it is until then, by the clock that keys are judged by."""
        return (at_us - self._now_us()) / 1e6

    def _shown(self, text: str) -> Bearer | None:
        if hmac.compare_digest(text.encode(), self._token):
            return self._admin
        found = self._people.shown(text, now_us=self._now_us())
        return self._door.shown(text, now_us=self._now_us()) if found is None and self._door is not None else found

    def _now_us(self) -> int:
        return int(self._now() * 1e6)

    def _refusal(self, what: str) -> Unauthenticated:
        return Unauthenticated(
            f"{what} Send `Authorization: Bearer TOKEN` with a key of yours, or the token from {self._source}; "
            "for a browser, open /login, or POST /login-code with it and open the address in the answer."
        )


def caller_of(bearer: Bearer, *, request_id: str) -> Caller:
    """Somebody who was let in, as he is told to the use cases."""
    return Caller(
        user=bearer.user, request_id=request_id, role=bearer.role, projects=bearer.projects, key_id=bearer.key_id
    )


def _told(payload: Mapping[str, object]) -> str | None:
    """What a connection_init shows, as a header would."""
    authorization = next((value for key, value in payload.items() if key.lower() == "authorization"), None)
    if isinstance(authorization, str):
        return authorization
    token = payload.get("token")
    return f"Bearer {token}" if isinstance(token, str) else None
