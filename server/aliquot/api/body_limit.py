"""The largest body that is taken: declared sizes are refused before a byte is read, others while they are read."""

import asyncio
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from aliquot.api.refusals import refusal

_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 64 * 1024 * 1024


class BodyLimit(RequestBodyLimitMiddleware):
    """Starlette's, but it says in words what the limit is."""

    def __init__(self, app: ASGIApp, *, body_bytes: int) -> None:
        super().__init__(app, max_body_size=body_bytes)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        declared = Headers(scope=scope).get("content-length", "") if scope["type"] == "http" else ""
        lingering = _Lingering(receive, send)
        if declared.isdecimal() and int(declared) > self.max_body_size:
            await body_too_large(scope, self.max_body_size)(scope, receive, lingering.send)
        else:
            await super().__call__(scope, receive, lingering.send)


class _Lingering:
    """Ends a 413 only when its client has sent all, or for long enough.

    To close on a client that still sends resets its connection, and it never reads why it was refused.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._refused = False

    async def send(self, message: Message) -> None:
        """Send."""
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
    """Answers where a body of no declared size went above the limit."""

    def __init__(self, body_bytes: int) -> None:
        self._body_bytes = body_bytes

    def __call__(self, request: Request, _error: Exception) -> Response:
        """Refuse."""
        return body_too_large(request.scope, self._body_bytes)


def body_too_large(scope: Scope, body_bytes: int) -> Response:
    """The refusal of a body above the limit."""
    response = refusal(scope, 413, "limit_exceeded", f"A body has at most {body_bytes} bytes.")
    response.headers["connection"] = "close"  # or a client without end would be read on and on
    return response
