"""Who is calling. Without accounts there is one token, in a file that only its owner can read.

A caller shows the token itself, or a browser's cookie. The cookie is signed with the token and carries its own end, so
it outlives a restart of the server and dies with the token. A browser gets it for a code that works once.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from aliquot_schema.errors import Unauthenticated
from aliquot_schema.ids import UserId

COOKIE: Final = "aliquot_session"
COOKIE_S: Final = 30 * 86_400
CODE_S: Final = 15 * 60.0
CODES_MAX: Final = 64
TOKEN_CHARS_MIN: Final = 16


class TokenAuth:
    """One token, one user.

    Args:
        token: the secret; at least 16 characters.
        user: who it stands for.
        source: where a person finds the token, in words for the refusal: `the file /path/token`.
        now: seconds since the epoch, for the cookie's end.
    """

    def __init__(
        self, token: str, user: UserId, *, source: str = "the server's token file", now: Callable[[], float] = time.time
    ) -> None:
        if len(token) < TOKEN_CHARS_MIN:
            raise ValueError(f"a token has at least {TOKEN_CHARS_MIN} characters")
        self._token = token.encode()
        self._user = user
        self._source = source
        self._now = now
        self._codes: dict[str, float] = {}

    def of_headers(self, authorization: str | None, cookies: Mapping[str, str]) -> UserId:
        """Tell who sent a request.

        Raises:
            Unauthenticated: neither a valid token nor a valid cookie was sent.
        """
        if authorization is not None:
            return self.of_authorization(authorization)
        cookie = cookies.get(COOKIE)
        if cookie is not None and self._is_own(cookie):
            return self._user
        raise self._refusal("No valid cookie was sent." if cookie is not None else "No token was sent.")

    def of_connection(self, payload: Mapping[str, object]) -> UserId:
        """Tell who opened a WebSocket, by the payload of connection_init: `authorization`, or `token` alone.

        Raises:
            Unauthenticated: there is none, or it is not a valid one.
        """
        authorization = next((value for key, value in payload.items() if key.lower() == "authorization"), None)
        if isinstance(authorization, str):
            return self.of_authorization(authorization)
        token = payload.get("token")
        if isinstance(token, str):
            return self.of_authorization(f"Bearer {token}")
        raise self._refusal("No token was sent.")

    def of_authorization(self, authorization: str) -> UserId:
        """Tell who sent an Authorization header.

        Raises:
            Unauthenticated: it is not `Bearer` and the token.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise self._refusal("The Authorization header is not of the kind Bearer.")
        if not hmac.compare_digest(token.strip().encode(), self._token):
            raise self._refusal("The token is not the server's.")
        return self._user

    def new_login_code(self) -> str:
        """Make a code that signs one browser in, once, within a quarter of an hour."""
        now = time.monotonic()
        self._codes = {code: end for code, end in self._codes.items() if end > now}
        while len(self._codes) >= CODES_MAX:
            self._codes.pop(next(iter(self._codes)))
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + CODE_S
        return code

    def redeem(self, code: str) -> str:
        """Take a code out of use, and give the cookie that it stands for.

        Raises:
            Unauthenticated: the code is unknown, used, or too old.
        """
        # Codes are long and random, and a wrong one takes nothing away: looking one up tells nobody anything.
        end = self._codes.pop(code, None)
        if end is None or end <= time.monotonic():
            raise self._refusal("This address was used before, or is too old.")
        return self._signed(int(self._now()) + COOKIE_S)

    def _is_own(self, cookie: str) -> bool:
        end, _, _ = cookie.partition(".")
        if not (end.isascii() and end.isdecimal() and len(end) <= 12):
            return False
        return hmac.compare_digest(cookie.encode(), self._signed(int(end)).encode()) and int(end) > self._now()

    def _signed(self, end: int) -> str:
        return f"{end}.{hmac.new(self._token, f'cookie {end}'.encode(), sha256).hexdigest()}"

    def _refusal(self, what: str) -> Unauthenticated:
        return Unauthenticated(
            f"{what} Send `Authorization: Bearer TOKEN` with the token from {self._source}; "
            "for a browser, POST /login-code with it and open the address in the answer."
        )
