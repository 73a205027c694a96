"""HTTP application: assembles routes and middleware from the server's dependencies."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Route, WebSocketRoute

from aliquot.api.agent_socket import AgentGateway, AgentSocket
from aliquot.api.apps.addresses import AppAddresses, AppPorts
from aliquot.api.apps.gateway import AppGateway, no_apps_route
from aliquot.api.authentication import TokenAuth
from aliquot.api.calendar_feed import CalendarFeed
from aliquot.api.connections import OpenConnections
from aliquot.api.context import Contexts
from aliquot.api.dashboard import BUILT, Dashboard
from aliquot.api.documentation import DOCUMENTATION, documentation_routes
from aliquot.api.encoding import EVENTS
from aliquot.api.graphql.documents import Documents, document_cache
from aliquot.api.graphql.endpoint import METHODS, GraphQLEndpoint
from aliquot.api.graphql.executor import compiled_executor
from aliquot.api.graphql.extensions import FaultLog, FaultMask
from aliquot.api.graphql.inputs import compile_inputs
from aliquot.api.graphql.shared_subscriptions import SharedSubscriptions
from aliquot.api.graphql.sockets import GraphQLSocket
from aliquot.api.health import Conditions, Health
from aliquot.api.job_output import OUTPUTS_PATH, OutputPages
from aliquot.api.limits import Limits, QueryRates
from aliquot.api.metrics.exposition import MetricsEndpoint, MetricsSources
from aliquot.api.metrics.request_counts import METRICS_PATH, RequestCounts
from aliquot.api.metrics.server import ServerFigures
from aliquot.api.middleware import (
    BodyLimit,
    BodyRefusal,
    BodyTimeout,
    FaultResponses,
    OriginCheck,
    RequestLog,
    ResponseChunking,
    TokenPrefetch,
    body_too_slow,
)
from aliquot.api.refusals import NotHere
from aliquot.api.rest.routes import rest_routes
from aliquot.api.session_files import MEDIA_TYPE, ResultDownload
from aliquot.api.session_files import PATH as FILE_PATH
from aliquot.api.session_streams import SERVERS_PATH, STREAM_PATH, ServerStreamSocket, SessionStreamSocket
from aliquot.api.sign_in import SignIn
from aliquot.api.status_page import StatusPage
from aliquot.api.workspaces import WorkspaceEndpoint
from aliquot.service.accounts.rate_limit import Rate
from aliquot.service.accounts.workspaces import Workspaces
from aliquot.service.sessions.files import SessionFiles
from aliquot.service.sessions.streams import SessionStreams, StreamSource
from aliquot.service.subscriptions.watching import Outputs
from aliquot_schema.cluster.agent_protocol import PATH as AGENTS_PATH
from aliquot_schema.graphql.context import Services
from aliquot_schema.graphql.schema import build_schema

if TYPE_CHECKING:
    from aliquot.api.oidc.code_flow import CodeFlow

NOT_COMPRESSED: Final = (EVENTS, MEDIA_TYPE)
"""Media types of this server that are not compressed. Starlette's own list is longer and checked on each request."""
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _nothing(_app: Starlette) -> AsyncIterator[None]:
    yield


class ApiDependencies(Struct, frozen=True, kw_only=True):
    """What the HTTP API needs from the rest of the server."""

    services: Services
    auth: TokenAuth
    provider: "CodeFlow | None" = None
    """Sign-in at an identity provider in the browser; None: there is none."""
    open_connections: OpenConnections
    """Must receive every event."""
    agents: AgentGateway | None = None
    """None: agents cannot connect."""
    outputs: Outputs | None = None
    """Job outputs of this server's agents for other servers; None: there are no others."""
    streams: SessionStreams | None = None
    """None: sessions have no terminals."""
    files: SessionFiles | None = None
    """None: results of sessions cannot be downloaded."""
    workspaces: Workspaces | None = None
    """None: working directories cannot be uploaded."""
    server_streams: StreamSource | None = None
    """Streams of this server's agents for other servers; None: there are no others."""
    apps: AppAddresses | AppPorts | None = None
    """Origins of apps; None: sessions have no apps."""
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")
    """Without ports; see `OriginCheck`."""
    allowed_origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    dashboard: Path = BUILT
    """Folder of the built dashboard; it may be missing."""
    documentation: Path = DOCUMENTATION
    """Folder of the built documentation; it may be missing."""
    conditions: Conditions = tuple
    metrics: MetricsSources | None = None
    """None: no metrics endpoint."""
    lifespan: Lifespan = _nothing
    """Entered before the first request, left after the last."""


def create_app(deps: ApiDependencies) -> Starlette:
    """Build the application. One process may hold several."""
    contexts = Contexts(services=deps.services, auth=deps.auth)
    documents, rates = Documents(deps.limits), query_rates(deps.limits)
    schema = _schema(deps, documents, rates)
    sharing = SharedSubscriptions(
        schema, documents=documents, refuses=lambda caller, cost: rates.refusal(caller, cost=cost) is not None
    )
    sign_in, health, page = (
        SignIn(deps.auth, deps.services.accounts, deps.provider),
        Health(deps.conditions, deps.auth),
        StatusPage(contexts),
    )
    provider = None if deps.provider is None else deps.provider.name
    dashboard = Dashboard(contexts, plain=page.page, folder=deps.dashboard, provider=provider)
    endpoint = GraphQLEndpoint(
        schema,
        context_of=contexts.of_request,
        sharing=sharing,
        open_connections=deps.open_connections,
        limits=deps.limits,
        page=dashboard.editor,
    )
    socket = GraphQLSocket(
        schema, contexts=contexts, sharing=sharing, open_connections=deps.open_connections, limits=deps.limits
    )
    figures = ServerFigures(
        conditions=deps.conditions,
        requests=RequestCounts(),
        subscribers=lambda: {"socket": socket.sockets.total, "stream": endpoint.streams.total},
    )
    apps, not_here = _apps(deps), NotHere(dashboard.missing)
    return Starlette(
        routes=[
            Route("/graphql", endpoint.answer, methods=METHODS),
            WebSocketRoute("/graphql", socket),
            *sign_in.routes(),
            Route("/healthz", health.healthz, methods=["GET"]),
            Route("/readyz", health.readyz, methods=["GET"]),
            Route("/page.css", page.style, methods=["GET"]),
            Route("/plain", page.page, methods=["GET"]),
            *CalendarFeed(deps.services).routes(),
            *rest_routes(contexts, rates=rates, limits=deps.limits, page=dashboard.page),
            *dashboard.routes(),
            *documentation_routes(deps.documentation),
            *([] if deps.outputs is None else [_outputs(deps, deps.outputs)]),
            *_session_routes(deps, contexts, apps),
            *([] if deps.metrics is None else [_metrics(deps, deps.metrics, figures)]),
            *([] if deps.agents is None else [WebSocketRoute(AGENTS_PATH, AgentSocket(deps.agents))]),
        ],
        middleware=_middleware(deps, figures.requests, apps),
        exception_handlers={404: not_here, 405: not_here, 408: body_too_slow, 413: BodyRefusal(deps.limits.body_bytes)},
        lifespan=deps.lifespan,
    )


def _schema(deps: ApiDependencies, documents: Documents, rates: QueryRates) -> FaultLog:
    schema = build_schema(
        FaultLog,
        extensions=(document_cache(documents, rates), FaultMask),
        executor=compiled_executor(hides_suggestions=not deps.limits.introspection),
    )
    compile_inputs(schema)
    return schema


def _middleware(deps: ApiDependencies, counts: RequestCounts, apps: AppGateway | None) -> list[Middleware]:
    """Outermost first."""
    return [
        *([] if apps is None else [Middleware(apps.middleware)]),
        Middleware(RequestLog, counts=counts),
        Middleware(OriginCheck, hosts=deps.allowed_hosts, origins=deps.allowed_origins),
        Middleware(FaultResponses),
        Middleware(BodyLimit, body_bytes=deps.limits.body_bytes),
        Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1, exclude_content_types=NOT_COMPRESSED),
        Middleware(ResponseChunking),
        Middleware(BodyTimeout, body_s=deps.limits.body_s),
        Middleware(TokenPrefetch, auth=deps.auth),
    ]


def query_rates(limits: Limits) -> QueryRates:
    """Query rate limits of this server."""
    rate = None if limits.cost_per_minute is None else Rate(per_minute=limits.cost_per_minute)
    return QueryRates(rate, monotonic=time.monotonic)


def _outputs(deps: ApiDependencies, outputs: Outputs) -> Route:
    pages = OutputPages(outputs, auth=deps.auth, open_connections=deps.open_connections)
    return Route(OUTPUTS_PATH, pages.stream, methods=["GET"])


def _session_routes(deps: ApiDependencies, contexts: Contexts, apps: AppGateway | None) -> list[BaseRoute]:
    """Apps and streams of sessions, and downloads of their results."""
    found: list[BaseRoute] = [no_apps_route() if apps is None else apps.route()]
    if deps.files is not None:
        download = ResultDownload(
            deps.files, contexts=contexts, open_connections=deps.open_connections, limits=deps.limits
        )
        found.append(Route(FILE_PATH, download.answer, methods=["GET", "HEAD"]))
    found += WorkspaceEndpoint(deps.workspaces, contexts=contexts, limits=deps.limits).routes()
    if deps.streams is not None:
        socket = SessionStreamSocket(
            deps.streams, auth=deps.auth, open_connections=deps.open_connections, limits=deps.limits
        )
        found.append(WebSocketRoute(STREAM_PATH, socket))
    if deps.server_streams is not None:
        others = ServerStreamSocket(deps.server_streams, auth=deps.auth, limits=deps.limits)
        found.append(WebSocketRoute(SERVERS_PATH, others))
    return found


def _apps(deps: ApiDependencies) -> AppGateway | None:
    if deps.streams is None or deps.apps is None:
        return None
    return AppGateway(
        deps.streams, deps.apps, auth=deps.auth, open_connections=deps.open_connections, limits=deps.limits
    )


def _metrics(deps: ApiDependencies, sources: MetricsSources, figures: ServerFigures) -> Route:
    endpoint = MetricsEndpoint(lambda: sources.read(figures), access=sources.access(deps.auth))
    return Route(METRICS_PATH, endpoint.answer, methods=["GET"])
