"""The envelope of every request: its id, its line in the log, and the headers that every answer has."""

import logging
import time
from typing import Final

import uuid_utils
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aliquot_schema.ids import REQUEST_PREFIX

log: Final = logging.getLogger("aliquot.api.access")

REQUEST_ID: Final = "aliquot.request_id"
"""The key in the ASGI scope."""

SECURITY: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Envelope:
    """Outermost of the application: nothing is answered without passing through it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the request an id, and log its end."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = scope[REQUEST_ID] = f"{REQUEST_PREFIX}{uuid_utils.uuid7()}"
        started = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.accept"):
                status = message.get("status", 101)
                _mark(message, request_id)
            elif message["type"] == "websocket.close":
                status = status or 403
            await send(message)

        try:
            await self._app(scope, receive, send_marked)
        finally:
            took_ms = (time.perf_counter() - started) * 1000
            # The query string is left out: it may hold a login code.
            log.info("%s %s %s %d %.1f ms", request_id, scope.get("method", "WS"), scope["path"], status, took_ms)


def _mark(message: Message, request_id: str) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    headers["x-request-id"] = request_id
    if message["type"] != "websocket.accept":
        for name, value in SECURITY.items():
            headers.setdefault(name, value)
        headers.setdefault("cache-control", "no-store")
