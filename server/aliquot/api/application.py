"""HTTP application: assembles routes and middleware from the server's dependencies."""

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
from aliquot.api.connections import HeldOpen
from aliquot.api.context import Contexts
from aliquot.api.dashboard import BUILT, Dashboard
from aliquot.api.encoding import EVENTS
from aliquot.api.graphql.documents import Documents, document_cache
from aliquot.api.graphql.endpoint import METHODS, GraphQLEndpoint
from aliquot.api.graphql.errors import FaultLog, FaultMask
from aliquot.api.graphql.executor import compiled_executor
from aliquot.api.graphql.shared_subscriptions import Sharing
from aliquot.api.graphql.sockets import GraphQLSocket
from aliquot.api.graphql.strawberry_fast_paths import compile_inputs
from aliquot.api.health import Conditions, Health
from aliquot.api.job_output import OUTPUTS_PATH, OutputPages
from aliquot.api.limits import Limits, QueryRates
from aliquot.api.metrics.exposition import MetricsEndpoint, MetricsSources
from aliquot.api.metrics.request_counts import METRICS_PATH, RequestCounts
from aliquot.api.metrics.server import ServerFigures
from aliquot.api.middleware import (
    AnswerPieces,
    BodyLimit,
    BodyRefusal,
    BodyTimeout,
    OriginCheck,
    RequestLog,
    TokenPrefetch,
    body_too_slow,
)
from aliquot.api.refusals import not_here
from aliquot.api.rest.routes import rest_routes
from aliquot.api.sign_in import LOGIN_PATH, LOGOUT_PATH, SignIn
from aliquot.api.status_page import StatusPage
from aliquot.service.accounts.rate_limit import Rate
from aliquot.service.sessions.external_allocations import ExternalAllocations
from aliquot.service.subscriptions.watching import Outputs
from aliquot_schema.cluster.agent_protocol import PATH as AGENTS_PATH
from aliquot_schema.graphql.context import (
    AccountsPort,
    AdministrationPort,
    HistoryPort,
    QueriesPort,
    RayView,
    SessionsPort,
    SubscriptionsPort,
)
from aliquot_schema.graphql.schema import build_schema
from aliquot_schema.views.server import ALONE, OrchestratorView

NOT_COMPRESSED: Final = (EVENTS,)
"""Media types of this server that are not compressed. Starlette's own list is longer and checked on each request."""
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _nothing(_app: Starlette) -> AsyncIterator[None]:
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDependencies:
    """What the HTTP API needs from the rest of the server."""

    reader: QueriesPort
    writer: SessionsPort
    watcher: SubscriptionsPort
    admin: AdministrationPort
    accounts: AccountsPort
    auth: TokenAuth
    held_open: HeldOpen
    """Must receive every event."""
    agents: AgentDoor | None = None
    """None: agents cannot connect."""
    ray: Callable[[], RayView | None] = lambda: None
    """Current state of Ray; None where it is not used."""
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE
    """Who leads, and whether scheduling is paused."""
    external_allocations: ExternalAllocations | None = None
    """External allocations; None: there is no REST API."""
    historian: HistoryPort | None = None
    """Measured history; None: it is not kept."""
    outputs: Outputs | None = None
    """Job outputs of this server's agents for other servers; None: there are no others."""
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")
    """Without ports; see `OriginCheck`."""
    allowed_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    dashboard: Path = BUILT
    """Folder of the built dashboard; it may be missing."""
    conditions: Conditions = tuple
    metrics: MetricsSources | None = None
    """None: no metrics endpoint."""
    lifespan: Lifespan = _nothing
    """Entered before the first request, left after the last."""


def create_app(deps: ApiDependencies) -> Starlette:
    """Build the application. One process may hold several."""
    contexts = Contexts(
        reader=deps.reader,
        writer=deps.writer,
        watcher=deps.watcher,
        admin=deps.admin,
        accounts=deps.accounts,
        auth=deps.auth,
        ray=deps.ray,
        orchestrator=deps.orchestrator,
        external_allocations=deps.external_allocations,
        historian=deps.historian,
    )
    documents, rates = Documents(deps.limits), query_rates(deps.limits)
    schema = build_schema(
        FaultLog,
        extensions=(document_cache(documents, rates), FaultMask),
        executor=compiled_executor(hides_suggestions=not deps.limits.introspection),
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
    sign_in, health, page = SignIn(deps.auth, deps.accounts), Health(deps.conditions, deps.auth), StatusPage(contexts)
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
            Route(LOGOUT_PATH, sign_in.logout, methods=["POST"]),
            Route("/healthz", health.healthz, methods=["GET"]),
            Route("/readyz", health.readyz, methods=["GET"]),
            Route("/page.css", page.style, methods=["GET"]),
            Route("/plain", page.page, methods=["GET"]),
            *rest_routes(contexts, rates=rates, limits=deps.limits, page=dashboard.page),
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
    """Outermost first."""
    return [
        Middleware(RequestLog, counts=counts),
        Middleware(OriginCheck, hosts=deps.allowed_hosts, origins=deps.allowed_origins),
        Middleware(BodyLimit, body_bytes=deps.limits.body_bytes),
        Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1, exclude_content_types=NOT_COMPRESSED),
        Middleware(AnswerPieces),
        Middleware(BodyTimeout, body_s=deps.limits.body_s),
        Middleware(TokenPrefetch, auth=deps.auth),
    ]


def query_rates(limits: Limits) -> QueryRates:
    """Query rate limits of this server."""
    rate = None if limits.cost_per_minute is None else Rate(per_minute=limits.cost_per_minute)
    return QueryRates(rate, monotonic=time.monotonic)


def _outputs(outputs: Outputs, auth: TokenAuth) -> Route:
    return Route(OUTPUTS_PATH, OutputPages(outputs, auth=auth).stream, methods=["GET"])


def _metrics(deps: ApiDependencies, sources: MetricsSources, figures: ServerFigures) -> Route:
    endpoint = MetricsEndpoint(lambda: sources.read(figures), access=sources.access(deps.auth))
    return Route(METRICS_PATH, endpoint.answer, methods=["GET"])
