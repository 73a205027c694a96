"""Tickets and cookies of apps. A ticket moves a sign-in from the server's origin to that of one app, once, within 30
seconds; the app's origin then has a cookie of its own.

Both are signed with the server's token and name the app, so those of one app open no other. They hold no secret: the
key and the sign-in behind them are checked on each request, so that signing out ends the cookies of all apps.
"""

import secrets
import time
from typing import Final

from itsdangerous import BadSignature, TimestampSigner

from aliquot.api.apps.addresses import AppName
from aliquot.api.authentication import TokenAuth
from aliquot.service.state.identities import AuthenticatedCaller
from aliquot_schema.ids import KeyId

TICKET_S: Final = 30.0
COOKIE_S: Final = 12 * 3600.0
COOKIE: Final = "aliquot_app"
USED_MAX: Final = 10_000
_SEPARATOR: Final = "~"
"""Occurs in no id."""


class AppTickets:
    """Makes and checks tickets and cookies."""

    def __init__(self, auth: TokenAuth) -> None:
        self._auth = auth
        self._tickets = auth.signer("aliquot app ticket")
        self._cookies = auth.signer("aliquot app cookie")
        self._used: dict[str, float] = {}
        """Random numbers of used tickets, and when they expire."""

    def ticket(self, app: AppName, bearer: AuthenticatedCaller) -> str:
        """A ticket for one app."""
        words = (app.label, bearer.key_id or "", bearer.sign_in_id or "", secrets.token_urlsafe(16))
        return self._tickets.sign(_SEPARATOR.join(words)).decode()

    def redeem(self, app: AppName, ticket: str) -> str | None:
        """Use up a ticket and return the cookie for it; None when it is not valid for this app."""
        found = self._read(self._tickets, app, ticket, TICKET_S)
        if found is None or found[3] in self._used:
            return None
        now = time.time()
        self._used = {number: end for number, end in self._used.items() if end > now}
        if len(self._used) >= USED_MAX or self._holder(found) is None:
            return None
        self._used[found[3]] = now + 2 * TICKET_S
        return self._cookies.sign(_SEPARATOR.join((*found[:3], secrets.token_urlsafe(16)))).decode()

    def bearer(self, app: AppName, cookie: str) -> AuthenticatedCaller | None:
        """Who a cookie stands for now; None when it is not valid for this app, or its sign-in has ended."""
        found = self._read(self._cookies, app, cookie, COOKIE_S)
        return None if found is None else self._holder(found)

    def app_of(self, cookie: str) -> AppName | None:
        """The app that a cookie was made for; None when the cookie is not valid."""
        words = self._words(self._cookies, cookie, COOKIE_S)
        return None if words is None else AppName.of_label(words[0])

    def _holder(self, words: list[str]) -> AuthenticatedCaller | None:
        _, key_id, sign_in_id, _ = words
        sign_in = KeyId(sign_in_id) if sign_in_id else None
        return self._auth.holder(KeyId(key_id) if key_id else None, sign_in_id=sign_in)

    def _read(self, signer: TimestampSigner, app: AppName, text: str, valid_s: float) -> list[str] | None:
        words = self._words(signer, text, valid_s)
        return words if words is not None and words[0] == app.label else None

    def _words(self, signer: TimestampSigner, text: str, valid_s: float) -> list[str] | None:
        try:
            content, signed_at = signer.unsign(text, return_timestamp=True)
        except BadSignature:
            return None
        words = content.decode().split(_SEPARATOR)
        return words if signed_at.timestamp() + valid_s > time.time() and len(words) == 4 else None
