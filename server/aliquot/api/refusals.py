"""Rejections before a request reaches GraphQL or REST, in the error format of that interface."""

import re
from collections.abc import Callable
from typing import Final

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Scope

from aliquot.api.encoding import REQUEST_ID, json_response
from aliquot.api.rest.framework import problem_response
from aliquot.api.rest.routes import DOCUMENT_PATH, OPERATIONS
from aliquot.api.status_page import document
from aliquot_schema.errors import Unauthenticated

GRAPHQL_PATH: Final = "/graphql"
_PATHS: Final = frozenset({operation.path for operation in OPERATIONS} | {DOCUMENT_PATH})
_ROOTS: Final = frozenset(path.split("/")[1] for path in _PATHS if path.count("/") > 1)
"""First path segments of the REST API."""
_SESSION_PAGE: Final = re.compile("/sessions/[^/]*")
"""Pages of the dashboard below such a segment."""
_POLICY: Final = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_NO_PAGE: Final = document(
    Markup(
        '<p>There is no page at this address.</p><p><a href="/">The cluster</a>, <a href="/sessions">the sessions</a>, '
        '<a href="/docs/">the documentation</a></p>'
    )
)


class NotHere:
    """404 or 405: no such path, or not with this method. Browsers that open a missing page get the dashboard's own.

    Args:
        page: the page of the dashboard for an address that it does not have; None without a build.
    """

    def __init__(self, page: Callable[[Request], Response | None]) -> None:
        self._page = page

    async def __call__(self, request: Request, error: Exception) -> Response:
        """A page for browsers, a problem document on REST paths, text on all others."""
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and _wants_page(request):
            page = self._page(request)
            return page or HTMLResponse(_NO_PAGE, 404, headers={"content-security-policy": _POLICY})
        if error.status_code != 404 and not is_rest(request.scope["path"]):
            return PlainTextResponse(error.detail, error.status_code, headers=error.headers)
        code = "not_found" if error.status_code == 404 else "method_not_allowed"
        words = f"{request.method} {request.url.path[:80]}: there is no such operation; see {DOCUMENT_PATH}"
        response = problem_response(error.status_code, code, words, request_id=request.scope[REQUEST_ID])
        response.headers.update(error.headers or {})
        return response


def _wants_page(request: Request) -> bool:
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")


def unauthenticated(scope: Scope, error: Unauthenticated) -> Response:
    """401, with the accepted kind of credentials."""
    response = refusal(scope, 401, error.code, error.message)
    response.headers["www-authenticate"] = "Bearer"
    return response


def refusal(scope: Scope, status: int, code: str, message: str) -> Response:
    """A GraphQL error on the path of GraphQL, a problem document on all others."""
    if scope["path"] == GRAPHQL_PATH:
        return json_response({"errors": [{"message": message, "extensions": {"code": code}}]}, status=status)
    return problem_response(status, code, message, request_id=scope[REQUEST_ID])


def is_rest(path: str) -> bool:
    """Whether a path belongs to the REST API, even if it does not exist."""
    is_below = path.partition("/")[2].partition("/")[0] in _ROOTS and _SESSION_PAGE.fullmatch(path) is None
    return path in _PATHS or is_below
