"""The largest body that is taken: declared sizes are refused before a byte is read, others while they are read."""

from starlette.datastructures import Headers
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from aliquot.api.refusals import refusal


class BodyLimit(RequestBodyLimitMiddleware):
    """Starlette's, but it says in words what the limit is."""

    def __init__(self, app: ASGIApp, *, body_bytes: int) -> None:
        super().__init__(app, max_body_size=body_bytes)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        declared = Headers(scope=scope).get("content-length", "") if scope["type"] == "http" else ""
        if declared.isdecimal() and int(declared) > self.max_body_size:
            await body_too_large(scope, self.max_body_size)(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


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
    response.headers["connection"] = "close"  # or the rest would be read only to be thrown away
    return response
