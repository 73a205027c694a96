"""The envelope of every request: its id, its line in the log, and the headers that every answer has."""

import logging
import time
from typing import Final

import uuid_utils
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aliquot.api.metrics.requests import RequestCounts
from aliquot.api.request_ids import REQUEST_ID
from aliquot.service.measuring.log_fields import logging_with
from aliquot_schema.ids import REQUEST_PREFIX

log: Final = logging.getLogger("aliquot.api.access")

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
"""What an answer has that does not say otherwise."""


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
    headers = message.setdefault("headers", [])
    headers.append((b"x-request-id", request_id.encode()))
    if message["type"] != "websocket.accept":
        said = {name for name, _ in headers}
        headers += [header for header in DEFAULTS if header[0] not in said]
