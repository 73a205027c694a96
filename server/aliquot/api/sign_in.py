"""Browser sign-in and sign-out: a one-time code, a key or an identity provider's sign-in becomes a cookie, which
signing out ends."""

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from aliquot.api.authentication import COOKIE, COOKIE_S, TokenAuth, caller_of
from aliquot.api.encoding import json_response, request_id_of
from aliquot.api.refusals import refusal, unauthenticated
from aliquot.api.status_page import NOTHING, PARAGRAPH, document
from aliquot_schema.errors import Unauthenticated, Unavailable
from aliquot_schema.graphql.administration_ports import AccountsPort

if TYPE_CHECKING:  # servers without a provider do not load the cryptography
    from aliquot.api.oidc.code_flow import CodeFlow

LOGIN_PATH: Final = "/login"
LOGOUT_PATH: Final = "/logout"
PROVIDER_PATH: Final = "/login/provider"
RETURN_PATH: Final = "/login/provider/return"
_BEGUN: Final = "aliquot_sign_in"
_BEGUN_S: Final = 600
_NEXT: Final = "next"
_OWN_PATH: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")
"""A path of this server, in printable ASCII without backslashes."""
FORM_BYTES_MAX: Final = 64 * 1024
_FIELD: Final = "key"
_WAS_USED: Final = "used"
_USED: Final = "This address has been used, or is older than 15 minutes. `aliquot open` prints a new one."
_POLICY: Final = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_FORM: Final = Markup(
    f'<form method="post" action="{{}}"><p><label>Key <input type="password" name="{_FIELD}" required '
    'autofocus autocomplete="current-password" size="60"></label> <button>Sign in</button></p></form>'
)
_PROVIDER: Final = Markup('<p><a href="{}">Sign in with {}</a></p>')


class SignIn:
    """`GET /login?code=...` redeems a code, `GET /login` shows a form that is sent to `POST /login`, and `POST
    /login-code` makes a code for the holder of a token or key. `GET /login/provider` leads to the identity provider,
    which leads back to `/login/provider/return`. `POST /logout` ends the sign-in. `next` in the query of the form and
    of `/login/provider` is the page of this server to show afterwards.

    Args:
        provider: None = no identity provider is configured.
    """

    def __init__(self, auth: TokenAuth, accounts: AccountsPort, provider: "CodeFlow | None" = None) -> None:
        self._auth = auth
        self._accounts = accounts
        self._provider = provider

    def routes(self) -> list[Route]:
        """Routes of signing in and out."""
        found = [
            Route(LOGIN_PATH, self.login, methods=["GET"]),
            Route(LOGIN_PATH, self.enter, methods=["POST"]),
            Route("/login-code", self.login_code, methods=["POST"]),
            Route(LOGOUT_PATH, self.logout, methods=["POST"]),
        ]
        if self._provider is not None:
            found.append(Route(PROVIDER_PATH, partial(self._leave, self._provider), methods=["GET"]))
            found.append(Route(RETURN_PATH, partial(self._come_back, self._provider), methods=["GET"]))
        return found

    async def login(self, request: Request) -> Response:
        """Redeem the code, set the cookie, and redirect to the page without the code in its address; without a code,
        show the form. A code that was used leads to the page of a browser that is signed in, else to the form."""
        code = request.query_params.get("code")
        if code is None or request.method == "HEAD":  # link checkers and chat programs look at addresses ahead
            return self._form(request, _USED if _WAS_USED in request.query_params else "", status=200)
        try:
            cookie = await self._cookie_for(code, request)
        except Unavailable as error:
            return self._form(request, f"The address was not used: {error.message}", status=503)
        if cookie is not None:
            return _signed_in(request, cookie)
        address = "/" if self._is_signed_in(request) else f"{LOGIN_PATH}?{_WAS_USED}"
        return RedirectResponse(address, status_code=303)

    async def _cookie_for(self, code: str, request: Request) -> str | None:
        """Use up a code on all servers; None when it is not valid any more.

        Raises:
            Unavailable: its use cannot be recorded; it stays valid.
        """
        try:
            bearer, cookie = self._auth.of_code(code), self._auth.redeem(code)
        except Unauthenticated:
            return None
        caller = caller_of(bearer, request_id=request_id_of(request))
        return cookie if await self._accounts.end_sign_in(caller, name="one-time address") else None

    def _is_signed_in(self, request: Request) -> bool:
        try:
            self._auth.of_headers(None, request.cookies)
        except Unauthenticated:
            return False
        return True

    async def enter(self, request: Request) -> Response:
        """Sign in with the key from the form. `OriginCheck` has rejected forms of other sites."""
        key = await _form_key(request)
        if key is None:
            refused = "The request is not this form, or is too large. Enter a key and try again."
            return self._form(request, refused, status=400)
        await self._auth.resolve(f"Bearer {key}")
        try:
            return _signed_in(request, self._auth.cookie_for(key), next_path=_next_path(request))
        except Unauthenticated as error:
            return self._form(request, error.message, status=401)

    async def login_code(self, request: Request) -> Response:
        """Make a code. Needs a token or key: a cookie cannot multiply itself."""
        try:
            code = self._auth.new_login_code(self._auth.of_headers(request.headers.get("authorization"), {}))
        except Unauthenticated as error:
            return unauthenticated(request.scope, error)
        return json_response({"code": code, "path": f"{LOGIN_PATH}?{urlencode({'code': code}, safe='~')}"})

    async def logout(self, request: Request) -> Response:
        """End the sign-in on the server, so that no copy of the cookie is valid, and have the browser delete it. 204,
        also without a valid cookie; 503 when the end cannot be recorded, and then the cookie stays valid."""
        with suppress(Unauthenticated):
            bearer = self._auth.of_headers(None, request.cookies)
            try:
                await self._accounts.end_sign_in(caller_of(bearer, request_id=request_id_of(request)))
            except Unavailable as error:
                return refusal(request.scope, 503, error.code, f"You are still signed in: {error.message}")
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return response

    async def _leave(self, provider: "CodeFlow", request: Request) -> Response:
        """Lead to the identity provider."""
        try:
            start = await provider.begin(redirect_uri=_return_address(request), next_path=_next_path(request))
        except Unauthenticated as error:
            return self._form(request, error.message, status=503)
        response = RedirectResponse(start.address, status_code=303, headers={"cache-control": "no-store"})
        # Lax, as the provider's page leads back from another site.
        response.set_cookie(
            _BEGUN,
            start.cookie,
            max_age=_BEGUN_S,
            path=PROVIDER_PATH,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return response

    async def _come_back(self, provider: "CodeFlow", request: Request) -> Response:
        """Finish a sign-in at the identity provider."""
        cookie = request.cookies.get(_BEGUN)
        try:
            found = await provider.finish(request.query_params, cookie=cookie, redirect_uri=_return_address(request))
            own = self._auth.cookie_of(found.key_id)
        except (Unauthenticated, Unavailable) as error:
            response: Response = self._form(request, error.message, status=401)
        else:
            # Not a redirect: a strict cookie is not sent along a chain of redirects that another site began.
            response = _with_cookie(_continuation(found.next_path), own, request)
        response.headers["cache-control"] = "no-store"
        response.delete_cookie(_BEGUN, path=PROVIDER_PATH)
        return response

    def _form(self, request: Request, refusal: str = "", *, status: int) -> Response:
        message = PARAGRAPH.format(refusal) if refusal else NOTHING
        next_path, provider = _next_path(request), self._provider
        query = "" if next_path == "/" else f"?{urlencode({_NEXT: next_path})}"
        by_provider = NOTHING if provider is None else _PROVIDER.format(PROVIDER_PATH + query, provider.name)
        prompt = PARAGRAPH.format("Sign in with an API key or the server's token.")
        return HTMLResponse(
            document(message, by_provider, prompt, _FORM.format(LOGIN_PATH + query)),
            status_code=status,
            # Without a referrer browsers send the origin null with forms, which `OriginCheck` rejects.
            headers={"content-security-policy": _POLICY, "referrer-policy": "same-origin"},
        )


def _return_address(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{RETURN_PATH}"


async def _form_key(request: Request) -> str | None:
    """The key in the form; None when the body is not this form, or too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            return None
    try:
        return parse_qs(body.decode("ascii", "replace"), max_num_fields=8).get(_FIELD, [""])[0].strip()
    except ValueError:
        return None


def _next_path(request: Request) -> str:
    """The page to show after the sign-in; `/` for one of another site."""
    path = request.query_params.get(_NEXT, "/")
    return path if _OWN_PATH.fullmatch(path) else "/"


def _signed_in(request: Request, cookie: str, *, next_path: str = "/") -> Response:
    # Not a redirect to another page: `form-action` also holds for where that page redirects, such as an app's origin.
    response = RedirectResponse("/", status_code=303) if next_path == "/" else _continuation(next_path)
    return _with_cookie(response, cookie, request)


def _continuation(next_path: str) -> Response:
    """A page that opens another one of this server."""
    link = PARAGRAPH.format(Markup('You are signed in. <a href="{}">Continue</a>').format(next_path))
    headers = {"refresh": f"0;url={next_path}", "content-security-policy": _POLICY}
    return HTMLResponse(document(link), headers=headers)


def _with_cookie(response: Response, cookie: str, request: Request) -> Response:
    response.set_cookie(
        COOKIE, cookie, max_age=COOKIE_S, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return response
