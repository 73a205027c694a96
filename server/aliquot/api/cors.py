"""Cross-origin requests of browsers: answers preflights, and lets pages of allowed origins read all responses.

Such a page sends a key in the header `Authorization`. A browser's cookie gives it no access: no response has
`Access-Control-Allow-Credentials`.

Source: Fetch Standard, 3.3 (CORS protocol).
"""

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Scope, Send

METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
EXPOSED: Final = "Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After, WWW-Authenticate, X-Request-ID"
"""Response headers that pages may read, besides those that they always may."""
PREFLIGHT_S: Final = 600
"""How long browsers may keep the answer to a preflight."""


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks if a page may send a request."""
    return (
        scope["type"] == "http"
        and scope["method"] == "OPTIONS"
        and "access-control-request-method" in Headers(scope=scope)
    )


def preflight_response(headers: Headers) -> Response:
    """The answer for a page of an allowed origin. Any method and any header may be sent: the routes decide."""
    return Response(
        status_code=204,
        headers={
            "access-control-allow-methods": METHODS,
            "access-control-allow-headers": headers.get("access-control-request-headers", ""),
            "access-control-max-age": str(PREFLIGHT_S),
        },
    )


def readable_by(origin: str, send: Send) -> Send:
    """`send` for responses that a page of this origin may read."""

    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = EXPOSED
            headers.add_vary_header("Origin")
        await send(message)

    return send_marked
