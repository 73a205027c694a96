"""Middleware of every request, outermost first:

- `RequestLog`: request id, access log, and default response headers.
- `OriginCheck`: allowed hosts and origins. Another site can point its own name at this machine (DNS rebinding) or use
  a browser's cookies; the Host header reveals the first, the Origin header the second.
- `FaultResponses`: the answer when a handler fails.
- `BodyLimit`: body size. Declared sizes are rejected before a byte is read, others while reading.
- `ResponseChunking` and `BodyTimeout`: limits on slow clients.
- `TokenPrefetch`: validates provider tokens, which may need a network request, before authentication.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import uuid_utils
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from typing_extensions import override

from aliquot.api.authentication import TokenAuth
from aliquot.api.cors import is_preflight, preflight_response, readable_by
from aliquot.api.encoding import PIECE_BYTES, REQUEST_ID
from aliquot.api.limits import BodyTooLarge
from aliquot.api.metrics.request_counts import RequestCounts
from aliquot.api.refusals import refusal
from aliquot.service.metrics.log_context import LineRate, logging_with
from aliquot_schema.cluster.agent_protocol import PATH as AGENTS_PATH
from aliquot_schema.ids import REQUEST_PREFIX

access_log: Final = logging.getLogger("aliquot.api.access")

DEFAULTS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
"""Headers of every response that does not set them itself."""

log: Final = logging.getLogger("aliquot.api")
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", AGENTS_PATH})
"""Probed by monitoring under any host name; they reveal nothing. Agents send a key in a header that no web page can
set."""
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 64 * 1024 * 1024


GONE: Final = 499
"""Logged for a client that left before its request was read."""
REFUSED: Final = frozenset({0, 400, 401, 403, 404, 405, 408, 413, 415, 421, GONE})
"""Statuses that strangers can cause as often as they like."""


class RequestLog:
    """Outermost middleware: every response passes through it."""

    def __init__(self, app: ASGIApp, *, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts
        self._refusals = LineRate(access_log, "refused requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Assign a request id, and log the result."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = f"{REQUEST_PREFIX}{uuid_utils.uuid7()}"
        started = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                status = message.get("status", 101)
                _mark(message, request_id)
            elif message["type"] == "websocket.close":
                status = status or 403
            await send(message)

        with logging_with(request_id=request_id), self._counts.noting(scope) as notes:
            try:
                await self._app(scope, receive, send_marked)
            except ClientDisconnect:
                status = GONE  # the client has disconnected
            finally:
                took_s = time.perf_counter() - started
                self._counts.end(scope, notes, status=status, took_s=took_s)
                if status not in REFUSED or self._refusals.allows():
                    # The query string is left out: it may hold a login code.
                    words = (request_id, scope.get("method", "WS"), scope["path"], status, took_s * 1000)
                    access_log.info("%s %s %s %d %.1f ms", *words)


def _mark(message: Message, request_id: str) -> None:
    headers = message.setdefault("headers", [])
    headers.append((b"x-request-id", request_id.encode()))
    if message["type"] != "websocket.accept":
        present = {name for name, _ in headers}
        headers += [header for header in DEFAULTS if header[0] not in present]


class OriginCheck:
    """Rejects requests for other hosts with 421 and those from other sites with 403; WebSockets always with 403.

    Args:
        hosts: names and addresses without a port; `*.example.org` matches all names below it, `*` matches all.
        origins: additional sites whose pages may send requests and read the responses, like `http://localhost:5173`.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = tuple(host.lower().strip("[]") for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._refusals = LineRate(log, "WebSockets of other sites")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward or reject a request."""
        refused = None
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            is_allowed = origin is not None and origin.lower() in self._origins
            if scope["path"] not in OPEN_PATHS:
                refused = self._refusal(scope, headers, is_allowed=is_allowed)
            if origin is not None and is_allowed and scope["type"] == "http":
                send = readable_by(origin, send)
                if refused is None and is_preflight(scope):
                    await preflight_response(headers)(scope, receive, send)
                    return
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, message = refused
        if scope["type"] == "websocket":
            # Before the handshake this becomes a bare 403 and browsers hide the reason, so it is logged.
            if self._refusals.allows():
                log.info("%s: %s", scope[REQUEST_ID], message)
            await WebSocketClose(1008, message)(scope, receive, send)
            return
        await refusal(scope, status, "forbidden", message)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, *, is_allowed: bool) -> tuple[int, str] | None:
        asked = headers.getlist("host")
        host = _hostname(f"//{asked[0]}") if len(asked) == 1 else None
        if host is None:
            return 400, "The request must have exactly one Host header."
        if not any(_matches(host, allowed) for allowed in self._hosts):
            return 421, f"{host} is not a name of this server. Add it to the setting allowed-hosts."
        origin = headers.get("origin")
        if origin is None or is_allowed or _is_same(origin, asked[0], is_tls=scope["scheme"] in ("https", "wss")):
            return None
        return (
            403,
            f"Pages of {origin[:200]} may not use this server. Add that origin to the setting allowed-origins.",
        )


def _matches(host: str, allowed: str) -> bool:
    return allowed in ("*", host) or (allowed.startswith("*.") and host.endswith(allowed[1:]))


def _is_same(origin: str, host: str, *, is_tls: bool) -> bool:
    """Whether a page is of this server.

    With TLS, a page sent over plain HTTP is not: it could be altered on the way. Without TLS, the scheme is not
    compared, because a proxy with TLS may forward plain HTTP.
    """
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return False
    return parts.netloc == host.lower() and (parts.scheme == "https" or not is_tls)


@lru_cache(maxsize=16)  # legitimate clients use few
def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    plain = not (parts.path or parts.query or parts.username)
    return parts.hostname if plain else None


class FaultResponses:
    """Middleware that answers a request whose handler failed: 500, with the id under which the log has the fault."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except ClientDisconnect:
            raise
        except Exception:
            if has_begun:  # the connection is closed, so that the client sees that the answer is not complete
                raise
            request_id = scope[REQUEST_ID]
            log.exception("%s: fault at %s", request_id, scope["path"])
            words = f"Internal error. The server's log has the details under {request_id}."
            await refusal(scope, 500, "internal", words)(scope, receive, send)


class BodyLimit(RequestBodyLimitMiddleware):
    """Starlette's limit, with an error message that names the limit."""

    def __init__(self, app: ASGIApp, *, body_bytes: int) -> None:
        super().__init__(app, max_body_size=body_bytes)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward or reject a request."""
        declared = Headers(scope=scope).get("content-length", "") if scope["type"] == "http" else ""
        lingering = _LingeringClose(receive, send)
        if declared.isdecimal() and int(declared) > self.max_body_size:
            await body_too_large(scope, self.max_body_size)(scope, receive, lingering.send)
        else:
            await super().__call__(scope, receive, lingering.send)


class _LingeringClose:
    """Finishes a 413 only after the client has sent everything, or after a time limit.

    Closing earlier resets the connection, and the client never reads the error.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._refused = False

    async def send(self, message: Message) -> None:
        """Send a message of the response."""
        if message["type"] == "http.response.start":
            self._refused = message["status"] == 413
        if not self._refused or message["type"] != "http.response.body" or message.get("more_body", False):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self._rest()
        await self._send({"type": "http.response.body"})

    async def _rest(self) -> None:
        left = _LINGER_BYTES
        while left > 0:
            message = await self._receive()
            if not message.get("more_body", False):
                return
            left -= len(message["body"])


class BodyRefusal:
    """Response when a body without a declared size exceeds the limit."""

    def __init__(self, body_bytes: int) -> None:
        self._body_bytes = body_bytes

    def __call__(self, request: Request, _error: Exception) -> Response:
        """The 413 response."""
        return body_too_large(request.scope, self._body_bytes)


def body_too_large(scope: Scope, body_bytes: int) -> Response:
    """The 413 response for the limit of all requests."""
    return body_refused(scope, BodyTooLarge(f"A body may have at most {body_bytes} bytes."))


def body_refused(scope: Scope, error: BodyTooLarge) -> Response:
    """The 413 response for any body limit."""
    response = refusal(scope, 413, "limit_exceeded", str(error))
    response.headers["connection"] = "close"  # else an endless body would be read on
    return response


BODY_BYTES_PER_S_MIN: Final = 16 * 1024
"""The lowest rate at which a large body may arrive, such as an upload over a slow line."""


class BodyTimeout:
    """Ends a request with 408 when its body arrives too slowly.

    A body may take `body_s`, and a large one longer: as long as it has at most `body_s` of delay behind
    `BODY_BYTES_PER_S_MIN`.
    """

    def __init__(self, app: ASGIApp, *, body_s: float) -> None:
        self._app = app
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, with a deadline on its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._body_s
        is_complete = False

        async def receive_in_time() -> Message:
            nonlocal is_complete, deadline
            if is_complete:  # the next message is the disconnect
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408) from None
            is_complete = not message.get("more_body", False)
            deadline += len(message.get("body", b"")) / BODY_BYTES_PER_S_MIN
            deadline = min(deadline, clock() + self._body_s)
            return message

        await self._app(scope, receive_in_time, send)


class ResponseChunking:
    """Sends a large body in pieces, each when the connection can take it.

    uvicorn buffers everything that it gets. With pieces, a client that does not read is detected (see
    `HeaderTimeoutHttp`), and compressing one response does not block others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, and split its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PIECE_BYTES:
                await send(message)
                return
            for start in range(0, len(body), PIECE_BYTES):
                is_last = start + PIECE_BYTES >= len(body)
                more = message.get("more_body", False) or not is_last
                await send({**message, "body": body[start : start + PIECE_BYTES], "more_body": more})
                await asyncio.sleep(0)

        await self._app(scope, receive, send_pieces)


def body_too_slow(request: Request, _error: Exception) -> Response:
    """The 408 response."""
    response = refusal(request.scope, 408, "timeout", "The request body did not arrive in time.")
    response.headers["connection"] = "close"
    return response


class TokenPrefetch:
    """Validates provider tokens; rejects nothing itself."""

    def __init__(self, app: ASGIApp, *, auth: TokenAuth) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Validate the token, and forward the request."""
        if scope["type"] in ("http", "websocket"):
            await self._auth.resolve(Headers(scope=scope).get("authorization"))
        await self._app(scope, receive, send)
