"""The envelope of every request: its id, its line in the log, and the headers that every answer has."""

import logging
import time
from typing import Final

import uuid_utils
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aliquot.api.metrics.requests import RequestCounts
from aliquot.api.request_ids import REQUEST_ID
from aliquot.service.measuring.log_fields import logging_with
from aliquot_schema.ids import REQUEST_PREFIX

log: Final = logging.getLogger("aliquot.api.access")

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

    def __init__(self, app: ASGIApp, *, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

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

        with logging_with(request_id=request_id), self._counts.noting(scope) as notes:
            try:
                await self._app(scope, receive, send_marked)
            finally:
                took_s = time.perf_counter() - started
                self._counts.end(scope, notes, status=status, took_s=took_s)
                # The query string is left out: it may hold a login code.
                words = (request_id, scope.get("method", "WS"), scope["path"], status, took_s * 1000)
                log.info("%s %s %s %d %.1f ms", *words)


def _mark(message: Message, request_id: str) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    headers["x-request-id"] = request_id
    if message["type"] != "websocket.accept":
        for name, value in SECURITY.items():
            headers.setdefault(name, value)
        headers.setdefault("cache-control", "no-store")
