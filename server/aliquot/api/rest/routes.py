"""The routes of the REST face, and its document."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aliquot.api.contexts import Contexts
from aliquot.api.query_rates import QueryRates
from aliquot.api.rest import cluster, orchestrator, queue, sessions
from aliquot.api.rest.encoding import encoded
from aliquot.api.rest.endpoint import RestEndpoint
from aliquot.api.rest.openapi import document

Answer = Callable[[Request], Awaitable[Response]]

OPERATIONS: Final = (*cluster.OPERATIONS, *queue.OPERATIONS, *sessions.OPERATIONS, *orchestrator.OPERATIONS)
DOCUMENT_PATH: Final = "/openapi.json"
API_VERSION: Final = "1"


def rest_routes(contexts: Contexts, *, rates: QueryRates, request_s: float, page: Answer) -> list[Route]:
    """One for each operation; a browser that opens an address which is a page of the dashboard, too, gets `page`.

    There are none without `Contexts.outside`, which they ask for GPUs.
    """
    if contexts.outside is None:
        return []
    routes = [Route(DOCUMENT_PATH, _described, methods=["GET"])]
    for operation in OPERATIONS:
        endpoint = RestEndpoint(operation, contexts=contexts, rates=rates, request_s=request_s)
        handler = _beside(endpoint.answer, page) if operation.path == "/queue" else endpoint.answer
        routes.append(Route(operation.path, handler, methods=[operation.method]))
    return routes


async def _described(_request: Request) -> Response:
    return Response(_document(), headers={"content-type": "application/json"})


@cache
def _document() -> bytes:
    """Made when it is first asked for."""
    return encoded(document(OPERATIONS, version=API_VERSION))


def _beside(endpoint: Answer, page: Answer) -> Answer:
    async def answer(request: Request) -> Response:
        wants_page = "text/html" in request.headers.get("accept", "")
        return await (page if wants_page else endpoint)(request)

    return answer
