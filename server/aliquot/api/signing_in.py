"""Signing a browser in: a code that works once, or a key that is typed in, becomes a cookie."""

from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from aliquot.api.authentication import TokenAuth
from aliquot.api.cookies import COOKIE, COOKIE_S
from aliquot.api.encoding import json_response
from aliquot.api.markup import Html, document, element
from aliquot.api.refusals import unauthenticated
from aliquot_schema.errors import Unauthenticated

LOGIN_PATH: Final = "/login"
FORM_BYTES_MAX: Final = 64 * 1024
_FIELD: Final = "key"
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_FORM: Final = Html(
    f'<form method="post" action="{LOGIN_PATH}"><p><label>Key <input type="password" name="{_FIELD}" required '
    'autofocus autocomplete="current-password" size="60"></label> <button>Sign in</button></p></form>'
)


class SignIn:
    """`GET /login?code=...` for a code, `GET /login` for a form, which is sent by `POST /login`; and `POST /login-code`
    for those who have a token or a key and want an address with a code."""

    def __init__(self, auth: TokenAuth) -> None:
        self._auth = auth

    async def login(self, request: Request) -> Response:
        """Take the code, set the cookie, and go to the page without the code in its address; or ask for a key."""
        code = request.query_params.get("code")
        if code is None:
            return _form(status=200)
        try:
            return _signed_in(request, self._auth.redeem(code))
        except Unauthenticated as error:
            return _form(error.message, status=401)

    async def enter(self, request: Request) -> Response:
        """Take what was typed into the form. The guard has seen that the form was this server's own."""
        key = await _typed(request)
        if key is None:
            return _form("What was sent is no form of this page, or holds too much.", status=400)
        await self._auth.look_at(f"Bearer {key}")
        try:
            return _signed_in(request, self._auth.cookie_for(key))
        except Unauthenticated as error:
            return _form(error.message, status=401)

    async def login_code(self, request: Request) -> Response:
        """Make a code. A token or a key does here: a browser's cookie cannot make more of itself."""
        try:
            bearer = self._auth.of_headers(request.headers.get("authorization"), {})
        except Unauthenticated as error:
            return unauthenticated(request.scope, error)
        code = self._auth.new_login_code(bearer)
        return json_response({"code": code, "path": f"{LOGIN_PATH}?code={code}"})


async def _typed(request: Request) -> str | None:
    """What the form holds, which anybody may send; None where that is none, or more than a key or token can be."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            return None
    try:
        return parse_qs(body.decode("ascii", "replace"), max_num_fields=8).get(_FIELD, [""])[0].strip()
    except ValueError:
        return None


def _signed_in(request: Request, cookie: str) -> Response:
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        COOKIE, cookie, max_age=COOKIE_S, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response


def _form(refusal: str = "", *, status: int) -> Response:
    said = element("p", refusal) if refusal else Html()
    asked = element("p", "Sign in with an API key, or the server's own token.")
    return HTMLResponse(
        document("Aliquot", element("h1", "Aliquot"), said, asked, _FORM),
        status_code=status,
        # Without a referrer a browser calls the origin of a form null, and the guard would refuse it.
        headers={"content-security-policy": _POLICY, "referrer-policy": "same-origin"},
    )
