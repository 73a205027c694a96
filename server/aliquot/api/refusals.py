"""Refusals of what never reaches a face: told as that face tells its own."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from aliquot.api.encoding import json_response
from aliquot.api.envelope import REQUEST_ID
from aliquot.api.rest.problems import shown
from aliquot.api.rest.routes import DOCUMENT_PATH, OPERATIONS

_REST: Final = frozenset({operation.path.split("/")[1] for operation in OPERATIONS} | {DOCUMENT_PATH[1:]})


def not_here(request: Request, error: Exception) -> Response:
    """Nothing is at that path, or not by that method."""
    assert isinstance(error, HTTPException)
    if not _is_rest(request.scope):
        return PlainTextResponse(error.detail, error.status_code, headers=error.headers)
    code = "not_found" if error.status_code == 404 else "method_not_allowed"
    words = f"{request.method} {request.url.path[:80]}: there is nothing like this; see {DOCUMENT_PATH}"
    response = refusal(request.scope, error.status_code, code, words)
    response.headers.update(error.headers or {})
    return response


def refusal(scope: Scope, status: int, code: str, message: str) -> Response:
    """A problem on the paths of the REST face, an error as GraphQL has them on all others."""
    if _is_rest(scope):
        return shown(status, code, message, request_id=scope[REQUEST_ID])
    return json_response({"errors": [{"message": message, "extensions": {"code": code}}]}, status=status)


def _is_rest(scope: Scope) -> bool:
    return scope["path"].partition("/")[2].partition("/")[0] in _REST
