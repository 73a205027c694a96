"""Apps of sessions at origins of their own: requests to their host names are taken here, before the server's routes.

A browser comes with a ticket from `/sessions/ID/apps/NAME` on the server's own origin, and gets a cookie of the app's
origin for it. From then on every request is checked: the cookie, the sign-in behind it, the owner, and the origin of
the page that sent it. What is passed on has none of the server's credentials.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable
from contextvars import ContextVar
from html import escape
from http import HTTPStatus
from importlib import import_module
from typing import Final
from urllib.parse import quote

import uuid_utils
from starlette.datastructures import URL, Headers, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from aliquot.api.apps.addresses import AppAddresses, AppName, AppPorts
from aliquot.api.apps.headers import AppRefused, cookie_header, fault, jar_of, own_cookie
from aliquot.api.apps.tickets import COOKIE_S, AppTickets
from aliquot.api.authentication import TokenAuth, caller_of
from aliquot.api.connections import OpenConnections, OpenCounts
from aliquot.api.encoding import REQUEST_ID, request_id_of
from aliquot.api.limits import Limits
from aliquot.api.refusals import refusal, unauthenticated
from aliquot.api.session_streams import DataRateLimit
from aliquot.service.sessions.streams import SessionStreams
from aliquot_schema.errors import AliquotError, Forbidden, InvalidRequest, NotFound, StateConflict, Unauthenticated
from aliquot_schema.ids import REQUEST_PREFIX
from aliquot_schema.requests import Caller

OPEN_PATH: Final = "/sessions/{session_id}/apps/{name}"
OWN_PATHS: Final = "/.aliquot/"
"""Of each app's origin; never passed on."""
TICKET_PATH: Final = "/.aliquot/open"
NO_APPS: Final = (
    "this server has no addresses for web services of sessions; run `aliquot session forward SESSION PORT`, "
    "or ask an admin for the setting apps-domain or apps-ports"
)
PROXY: Final = "aliquot.api.apps.proxy"
_AGAIN: Final = "again"
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STATUS: Final = {Forbidden: 403, NotFound: 404, StateConflict: 409, InvalidRequest: 400}
log: Final = logging.getLogger("aliquot.api.apps")
_is_broken_off: Final = ContextVar("_is_broken_off", default=False)
"""Whether the app of this request has ended its answer early."""


def _not_of_apps(record: logging.LogRecord) -> bool:
    """Drop uvicorn's error about an answer without an end where its app is the cause."""
    return not (_is_broken_off.get() and record.msg == "ASGI callable returned without completing response.")


class AppGateway:
    """The middleware in front of everything, and the route that opens an app."""

    def __init__(
        self,
        streams: SessionStreams,
        addresses: AppAddresses | AppPorts,
        *,
        auth: TokenAuth,
        open_connections: OpenConnections,
        limits: Limits,
    ) -> None:
        self._streams = streams
        self._addresses = addresses
        self._auth = auth
        self._open_connections = open_connections
        self._limits = limits
        self._tickets = AppTickets(auth)
        logging.getLogger("uvicorn.error").addFilter(_not_of_apps)
        self.open = OpenCounts(per_user=limits.session_streams_per_user)
        """Requests and WebSockets that are being passed on."""

    def route(self) -> Route:
        """The route on the server's own origin."""
        return Route(OPEN_PATH, self.enter, methods=["GET"])

    async def enter(self, request: Request) -> Response:
        """Send the browser to an app, with a ticket; the opening is in the audit log."""
        app = AppName(request.path_params["session_id"], request.path_params["name"])
        authorization = request.headers.get("authorization")
        try:
            await self._auth.resolve(authorization)
            bearer = self._auth.of_headers(authorization, request.cookies)
        except Unauthenticated as error:
            if authorization is not None or "text/html" not in request.headers.get("accept", ""):
                return unauthenticated(request.scope, error)
            return self._signed_out(request)
        caller = caller_of(bearer, request_id=request_id_of(request))
        try:
            self._streams.check_app(caller, app.session_id, app.name, owner_only=not self._addresses.isolates)
            self._addresses.check(app, self._streams.has_ended, owner=caller.user)
            await self._streams.record_app(caller, app.session_id, app.name)
            # Last, as it may take the port of another user's app.
            self._addresses.admit(app, self._streams.has_ended, owner=caller.user)
        except AliquotError as error:
            return _not_entered(request, app, error)
        address = self._addresses.origin(app, request.scope, request.headers["host"])
        query = f"ticket={self._tickets.ticket(app, bearer)}&next={quote(request.query_params.get('next', '/'))}"
        return RedirectResponse(f"{address}{TICKET_PATH}?{query}", status_code=303)

    def _signed_out(self, request: Request) -> Response:
        """A strict cookie is not sent when another site leads here: this page leads here again, which is no other
        site."""
        here = URL(scope=request.scope).replace(scheme="", netloc="")
        if _AGAIN in request.query_params:
            back = str(here.remove_query_params(_AGAIN))
            return RedirectResponse(f"/login?next={quote(back, safe='')}", status_code=303)
        url = str(here.include_query_params(**{_AGAIN: "1"}))
        return _page("Signing in …", status=200, refresh=f"0;url={url}")

    def middleware(self, app: ASGIApp) -> ASGIApp:
        """An application that takes the requests to apps, and passes the others on."""

        def dispatch(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            if scope["type"] in ("http", "websocket"):
                hosts = [value for name, value in scope["headers"] if name == b"host"]
                if len(hosts) == 1 and self._addresses.takes(scope, host := hosts[0].decode("latin-1")):
                    return self._take(scope, receive, send, host)
            return app(scope, receive, send)

        return dispatch

    async def _take(self, scope: Scope, receive: Receive, send: Send, host: str) -> None:
        if PROXY not in sys.modules:
            # Its libraries are loaded by the first app opened, and not by the event loop.
            await asyncio.to_thread(import_module, PROXY)
        scope[REQUEST_ID] = f"{REQUEST_PREFIX}{uuid_utils.uuid7()}"
        scope.setdefault("path_params", {})
        if scope["type"] == "websocket":
            browser = WebSocket(scope, receive, send)
            await browser.receive()
            answer = await self._socket(browser, host)
            if answer is not None:
                await browser.send_denial_response(answer)
            return
        answer = await self._http(scope, receive, send, host)
        if answer is not None:
            answer.headers.setdefault("cache-control", "no-store")
            answer.headers.setdefault("referrer-policy", "no-referrer")
            await answer(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send, host: str) -> Response | None:
        """Pass a request on; returns an answer of this server's own instead, if any."""
        from aliquot.api.apps.proxy import HttpExchange

        app = self._addresses.app_at(scope, host)
        if app is None:
            return PlainTextResponse("There is no such app. Open it from the page of its session.", 404)
        refused = fault(scope, origin=self._addresses.origin(app, scope, host))
        if refused is not None:
            return PlainTextResponse(refused[1], refused[0])
        if scope["path"] == TICKET_PATH:
            return self._redeem(app, scope)
        if scope["path"].startswith(OWN_PATHS):
            return PlainTextResponse("There is no such page.", 404)
        caller = self._caller(app, scope)
        if caller is None:
            return self._ask_to_sign_in(app, scope, host)
        if not self.open.may_open(caller.user):
            return PlainTextResponse("Too many requests to apps at the same time.", 429)
        exchange: HttpExchange | None = None
        with self.open.counted(caller.user), self._addresses.used(app):
            try:
                stream, token = await self._streams.open_app(caller, app.session_id, app.name)
                exchange = HttpExchange(
                    scope, receive, send, host=host, target=_target(scope), token=token, jar=self._jar(scope)
                )
                cut, pace = asyncio.Event(), DataRateLimit(self._limits.stream_bytes_per_s)
                with self._open_connections.of_caller(caller, cut.set):
                    await exchange.run(stream, pace, cut)
            except AliquotError as error:
                return self._unavailable(app, scope, error, host)
            except AppRefused as error:
                if exchange is None or not exchange.has_begun:
                    return PlainTextResponse(error.text, error.status)
                # An answer that ends early has no end either: uvicorn closes the connection.
                _is_broken_off.set(True)
                log.info("%s of %s broke off its answer: %s", app.name, app.session_id, error.text)
        return None

    async def _socket(self, browser: WebSocket, host: str) -> Response | None:
        """Pass a WebSocket on; returns why not, if it is refused."""
        from aliquot.api.apps.proxy import SocketExchange

        scope = browser.scope
        app = self._addresses.app_at(scope, host)
        if app is None:
            return PlainTextResponse("There is no such app. Open it from the page of its session.", 404)
        refused = fault(scope, origin=self._addresses.origin(app, scope, host))
        if refused is not None:
            return PlainTextResponse(refused[1], refused[0])
        caller = self._caller(app, scope)
        if caller is None or scope["path"].startswith(OWN_PATHS):
            return PlainTextResponse("Sign in first.", 401)
        if not self.open.may_open(caller.user):
            return PlainTextResponse("Too many WebSockets to apps at the same time.", 429)
        with self.open.counted(caller.user), self._addresses.used(app):
            try:
                stream, token = await self._streams.open_app(caller, app.session_id, app.name)
                cut, pace = asyncio.Event(), DataRateLimit(self._limits.stream_bytes_per_s)
                with self._open_connections.of_caller(caller, cut.set):
                    exchange = SocketExchange(
                        browser, host=host, target=_target(scope), token=token, jar=self._jar(scope)
                    )
                    await exchange.run(stream, pace, cut)
            except AliquotError as error:
                return PlainTextResponse(error.message, 503)
            except AppRefused as error:
                is_known = error.status >= 400 and error.status in set(HTTPStatus)
                return PlainTextResponse(error.text, error.status if is_known else 502)
        return None

    def _caller(self, app: AppName, scope: Scope) -> Caller | None:
        cookie = own_cookie(scope["headers"], self._jar(scope))
        bearer = None if cookie is None else self._tickets.bearer(app, cookie)
        return None if bearer is None else caller_of(bearer, request_id=scope[REQUEST_ID])

    def _redeem(self, app: AppName, scope: Scope) -> Response:
        if scope["method"] != "GET":  # link checkers look at addresses ahead; the ticket stays valid
            return PlainTextResponse("Open this address in a browser.", 405, headers={"allow": "GET"})
        query = QueryParams(scope["query_string"])
        cookie = self._tickets.redeem(app, query.get("ticket", ""))
        if cookie is None:
            return PlainTextResponse("This address was already used or has expired. Open the app again.", 403)
        following = query.get("next", "/")
        is_own_path = following.startswith("/") and not following.startswith(("//", "/\\", OWN_PATHS))
        response = RedirectResponse(following if is_own_path else "/", status_code=303)
        header = cookie_header(cookie, max_age_s=COOKIE_S, is_secure=scope["scheme"] == "https", jar=self._jar(scope))
        response.headers.append("set-cookie", header)
        if not self._addresses.isolates:  # another app may have had the port before
            response.headers["clear-site-data"] = '"cache", "storage"'
        return response

    def _jar(self, scope: Scope) -> str:
        return jar_of(scope, isolates=self._addresses.isolates)

    def _ask_to_sign_in(self, app: AppName, scope: Scope, host: str) -> Response:
        """Lead a page to the server's own origin, which leads back with a ticket; 401 for all other requests. The page
        of an app that has lost its port is led to the app's new address, not to the app that has the port now. With
        host names the cookie is not asked: an app of another user may have set it."""
        if not _is_page(scope):
            return PlainTextResponse("Sign in first: open the app from its session.", 401)
        cookie = None if self._addresses.isolates else own_cookie(scope["headers"], self._jar(scope))
        own = None if cookie is None else self._tickets.app_of(cookie)
        return self._to_server(own or app, scope, host)

    def _to_server(self, app: AppName, scope: Scope, host: str) -> Response:
        path = _target(scope).decode("latin-1")
        server = self._addresses.server(scope, host)
        address = f"{server}/sessions/{quote(app.session_id)}/apps/{app.name}?next={quote(path, safe='')}"
        return RedirectResponse(address, status_code=303)

    def _unavailable(self, app: AppName, scope: Scope, error: AliquotError, host: str) -> Response:
        is_page = _is_page(scope)
        if isinstance(error, StateConflict) and is_page:
            return self._to_server(app, scope, host)  # which leads on to the page of the ended session
        if isinstance(error, NotFound) and error.kind == "port":
            if is_page:
                return _page(f"{app.name} is starting. This page opens it when it listens.", status=503, refresh="1")
            return PlainTextResponse(error.message, 503, headers={"retry-after": "1"})
        status = _status_of(error)
        return _page(error.message, status=status) if is_page else PlainTextResponse(error.message, status)


def _is_page(scope: Scope) -> bool:
    return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")


def _target(scope: Scope) -> bytes:
    """Path and query as the browser sent them. uvicorn leaves a fragment in those of WebSockets."""
    path: bytes = scope.get("raw_path") or quote(scope["path"], safe="/%").encode()
    query: bytes = scope["query_string"]
    return (path + b"?" + query if query else path).partition(b"#")[0]


def no_apps_route() -> Route:
    """The route on the server's own origin where apps have no address; it says so."""

    async def refuse(request: Request) -> Response:
        app = AppName(request.path_params["session_id"], request.path_params["name"])
        return _not_entered(request, app, NotFound(NO_APPS, kind="app", id=app.name[:80]))

    return Route(OPEN_PATH, refuse, methods=["GET"])


def _not_entered(request: Request, app: AppName, error: AliquotError) -> Response:
    """A person whose session has ended meanwhile is led to its page, which says why it ended."""
    if "text/html" not in request.headers.get("accept", ""):
        return refusal(request.scope, _status_of(error), error.code, error.message)
    if isinstance(error, StateConflict):
        return RedirectResponse(f"/sessions/{app.session_id}", status_code=303)
    return _page(error.message, status=_status_of(error))


def _status_of(error: AliquotError) -> int:
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 503)


def _page(text: str, *, status: int, refresh: str | None = None) -> Response:
    headers = {"content-security-policy": _POLICY} | ({"refresh": refresh} if refresh else {})
    return HTMLResponse(f"<!doctype html><title>Aliquot</title><p>{escape(text)}</p>", status, headers=headers)
