"""REST routes, and the OpenAPI document."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aliquot.api.context import Contexts
from aliquot.api.encoding import request_id_of
from aliquot.api.limits import Limits, QueryRates
from aliquot.api.rest import billing, cluster, jobs, orchestrator, reservations
from aliquot.api.rest.framework import RestEndpoint, encoded, error_response
from aliquot.api.rest.openapi import document
from aliquot_schema.errors import Unauthenticated

Answer = Callable[[Request], Awaitable[Response]]

OPERATIONS: Final = (
    *billing.OPERATIONS,
    *cluster.OPERATIONS,
    *jobs.QUEUE_OPERATIONS,
    *jobs.SESSION_OPERATIONS,
    *orchestrator.OPERATIONS,
    *reservations.OPERATIONS,
)
DOCUMENT_PATH: Final = "/openapi.json"
API_VERSION: Final = "1"
_PAGES: Final = ("/queue", "/sessions")
"""Operations whose path is also a page of the dashboard."""


def rest_routes(contexts: Contexts, *, rates: QueryRates, limits: Limits, page: Answer) -> list[Route]:
    """One route per operation. Where a path is also a page of the dashboard, browsers get `page`.

    Empty without `Contexts.external_allocations`, which the operations need.
    """
    if contexts.services.external_allocations is None:
        return []
    routes = [Route(DOCUMENT_PATH, _described if limits.openapi_open else _for_callers(contexts), methods=["GET"])]
    for operation in OPERATIONS:
        endpoint = RestEndpoint(operation, contexts=contexts, rates=rates, limits=limits)
        handler = _beside(endpoint.answer, page) if operation.path in _PAGES else endpoint.answer
        routes.append(Route(operation.path, handler, methods=[operation.method]))
    return routes


async def _described(_request: Request) -> Response:
    return Response(_document(), headers={"content-type": "application/json"})


def _for_callers(contexts: Contexts) -> Answer:
    async def answer(request: Request) -> Response:
        try:
            contexts.of_request(request)
        except Unauthenticated as error:
            return error_response(error, request_id=request_id_of(request))
        return await _described(request)

    return answer


@cache
def _document() -> bytes:
    """Generated at the first request."""
    return encoded(document(OPERATIONS, version=API_VERSION))


def _beside(endpoint: Answer, page: Answer) -> Answer:
    async def answer(request: Request) -> Response:
        wants_page = "text/html" in request.headers.get("accept", "")
        return await (page if wants_page else endpoint)(request)

    return answer
