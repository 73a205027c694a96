"""The HTTP application, put together from what it depends on."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route, WebSocketRoute

from aliquot.api.agent_socket import AgentDoor, AgentSocket
from aliquot.api.authentication import TokenAuth
from aliquot.api.body_limit import BodyLimit, BodyRefusal
from aliquot.api.body_patience import BodyPatience, body_too_slow
from aliquot.api.contexts import Contexts
from aliquot.api.dashboard import BUILT, Dashboard
from aliquot.api.documents import Documents, document_cache
from aliquot.api.endpoint import METHODS, GraphQLEndpoint
from aliquot.api.envelope import Envelope
from aliquot.api.execution.executor import compiled_executor
from aliquot.api.execution.inputs import compile_inputs
from aliquot.api.faults import FaultLog, FaultMask
from aliquot.api.guard import Guard
from aliquot.api.health import Conditions, Health
from aliquot.api.held_open import HeldOpen
from aliquot.api.limits import Limits
from aliquot.api.looking import Looking
from aliquot.api.media_types import EVENTS
from aliquot.api.metrics.endpoint import MetricsEndpoint
from aliquot.api.metrics.requests import METRICS_PATH, RequestCounts
from aliquot.api.metrics.server_families import ServerFigures
from aliquot.api.metrics.sources import MetricsSources
from aliquot.api.outputs import OUTPUTS_PATH, OutputPages
from aliquot.api.page import StatusPage
from aliquot.api.query_rates import QueryRates
from aliquot.api.refusals import not_here
from aliquot.api.rest.routes import rest_routes
from aliquot.api.sharing.sharing import Sharing
from aliquot.api.signing_in import LOGIN_PATH, SignIn
from aliquot.api.sockets import GraphQLSocket
from aliquot.service.accounts.buckets import Rate
from aliquot.service.outside import Outside
from aliquot.service.watching import Outputs
from aliquot_schema.agent_protocol import PATH as AGENTS_PATH
from aliquot_schema.graphql.context import Accountant, Administrator, Historian, RayView, Reader, Watcher, Writer
from aliquot_schema.graphql.schema import build_schema
from aliquot_schema.server_views import ALONE, OrchestratorView

NOT_COMPRESSED: Final = (EVENTS,)
"""Of what the server answers; Starlette goes through its own long list for each request."""
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _nothing(_app: Starlette) -> AsyncIterator[None]:
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDependencies:
    """What the HTTP face asks of the rest of the server."""

    reader: Reader
    writer: Writer
    watcher: Watcher
    admin: Administrator
    accounts: Accountant
    auth: TokenAuth
    held_open: HeldOpen
    """Has to hear of every event."""
    agents: AgentDoor | None = None
    """None: no agent can dial in."""
    ray: Callable[[], RayView | None] = lambda: None
    """How Ray is now; None where it is not used."""
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE
    """Who leads."""
    outside: Outside | None = None
    """Work that is run outside; None: there is no REST face."""
    historian: Historian | None = None
    """What was measured; None: nothing is kept of it."""
    outputs: Outputs | None = None
    """What the other servers may read of the server's own agents; None: there are no others."""
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")
    """Without ports; see `Guard`."""
    allowed_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    dashboard: Path = BUILT
    """The folder of the built dashboard; it need not be there."""
    conditions: Conditions = tuple
    metrics: MetricsSources | None = None
    """None: there are no metrics."""
    lifespan: Lifespan = _nothing
    """Entered before the first request, left after the last."""


def create_app(deps: ApiDependencies) -> Starlette:
    """Build the application. Several can live in one process."""
    contexts = Contexts(
        reader=deps.reader,
        writer=deps.writer,
        watcher=deps.watcher,
        admin=deps.admin,
        accounts=deps.accounts,
        auth=deps.auth,
        ray=deps.ray,
        orchestrator=deps.orchestrator,
        outside=deps.outside,
        historian=deps.historian,
    )
    documents, rates = Documents(deps.limits), query_rates(deps.limits)
    schema = build_schema(
        FaultLog, extensions=(document_cache(documents, rates), FaultMask), executor=compiled_executor()
    )
    compile_inputs(schema)
    sharing = Sharing(
        schema,
        documents=documents,
        refuses=lambda caller, cost: rates.refusal(caller, cost=cost) is not None,
    )
    endpoint = GraphQLEndpoint(
        schema, context_of=contexts.of_request, sharing=sharing, held_open=deps.held_open, limits=deps.limits
    )
    sign_in, health, page = SignIn(deps.auth), Health(deps.conditions, deps.auth), StatusPage(contexts)
    socket = GraphQLSocket(schema, contexts=contexts, sharing=sharing, held_open=deps.held_open, limits=deps.limits)
    figures = ServerFigures(
        conditions=deps.conditions,
        requests=RequestCounts(),
        subscribers=lambda: {"socket": socket.sockets.total, "stream": endpoint.streams.total},
    )
    dashboard = Dashboard(contexts, plain=page.page, folder=deps.dashboard)
    return Starlette(
        routes=[
            Route("/graphql", dashboard.beside(endpoint.answer), methods=METHODS),
            WebSocketRoute("/graphql", socket),
            Route(LOGIN_PATH, sign_in.login, methods=["GET"]),
            Route(LOGIN_PATH, sign_in.enter, methods=["POST"]),
            Route("/login-code", sign_in.login_code, methods=["POST"]),
            Route("/healthz", health.healthz, methods=["GET"]),
            Route("/readyz", health.readyz, methods=["GET"]),
            Route("/page.css", page.style, methods=["GET"]),
            Route("/plain", page.page, methods=["GET"]),
            *rest_routes(contexts, rates=rates, request_s=deps.limits.request_s, page=dashboard.page),
            *dashboard.routes(),
            *([] if deps.outputs is None else [_outputs(deps.outputs, deps.auth)]),
            *([] if deps.metrics is None else [_metrics(deps, deps.metrics, figures)]),
            *([] if deps.agents is None else [WebSocketRoute(AGENTS_PATH, AgentSocket(deps.agents))]),
        ],
        middleware=_middleware(deps, figures.requests),
        exception_handlers={404: not_here, 405: not_here, 408: body_too_slow, 413: BodyRefusal(deps.limits.body_bytes)},
        lifespan=deps.lifespan,
    )


def _middleware(deps: ApiDependencies, counts: RequestCounts) -> list[Middleware]:
    """The outermost first."""
    return [
        Middleware(Envelope, counts=counts),
        Middleware(Guard, hosts=deps.allowed_hosts, origins=deps.allowed_origins),
        Middleware(BodyLimit, body_bytes=deps.limits.body_bytes),
        Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1, exclude_content_types=NOT_COMPRESSED),
        Middleware(BodyPatience, body_s=deps.limits.body_s),
        Middleware(Looking, auth=deps.auth),
    ]


def query_rates(limits: Limits) -> QueryRates:
    """Rates of this server."""
    rate = None if limits.cost_per_minute is None else Rate(per_minute=limits.cost_per_minute)
    return QueryRates(rate, monotonic=time.monotonic)


def _outputs(outputs: Outputs, auth: TokenAuth) -> Route:
    return Route(OUTPUTS_PATH, OutputPages(outputs, auth=auth).stream, methods=["GET"])


def _metrics(deps: ApiDependencies, sources: MetricsSources, figures: ServerFigures) -> Route:
    endpoint = MetricsEndpoint(lambda: sources.look(figures), access=sources.access(deps.auth))
    return Route(METRICS_PATH, endpoint.answer, methods=["GET"])
