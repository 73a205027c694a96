"""Signing a browser in: a code that works once becomes a cookie."""

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from aliquot.api.authentication import COOKIE, COOKIE_S, TokenAuth
from aliquot.api.encoding import json_response
from aliquot_schema.errors import Unauthenticated

LOGIN_PATH: Final = "/login"


class SignIn:
    """`GET /login?code=...` for browsers; `POST /login-code` for those who have the token and want such an address."""

    def __init__(self, auth: TokenAuth) -> None:
        self._auth = auth

    async def login(self, request: Request) -> Response:
        """Take the code, set the cookie, and go to the page without the code in its address."""
        try:
            cookie = self._auth.redeem(request.query_params.get("code", ""))
        except Unauthenticated as error:
            return PlainTextResponse(f"{error.message}\n", status_code=401)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            COOKIE, cookie, max_age=COOKIE_S, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return response

    async def login_code(self, request: Request) -> Response:
        """Make a code. Only the token does here: a browser's cookie cannot make more of itself."""
        try:
            self._auth.of_headers(request.headers.get("authorization"), {})
        except Unauthenticated as error:
            body = {"errors": [{"message": error.message, "extensions": {"code": error.code}}]}
            response = json_response(body, status=401)
            response.headers["www-authenticate"] = "Bearer"
            return response
        code = self._auth.new_login_code()
        return json_response({"code": code, "path": f"{LOGIN_PATH}?code={code}"})
