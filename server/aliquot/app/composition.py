"""Composition root: connects settings, store, agents, use cases and the HTTP API. No other module imports them all."""

import asyncio
import getpass
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.applications import Starlette

from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.apps.addresses import AppAddresses, AppPorts
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.api.limits import Limits
from aliquot.api.metrics.exposition import MetricsSources
from aliquot.app.agents import AgentPlan, agent_side, agents_of, own_disk, token_file_of
from aliquot.app.demo import begin_demo, demo_kept
from aliquot.app.features import agent_keys_told, outfit_of
from aliquot.app.health import CertificateExpiry, conditions_of, metrics_token, watched
from aliquot.app.identity import identity_provider, make_folders, mark_kept, read_token
from aliquot.app.running import Running
from aliquot.app.server import ServerPlan, open_server
from aliquot.clock import SystemClock
from aliquot.execution.devices.node import NodeDevices
from aliquot.execution.remote.agent_keys import KEY_FILE, KeyFile
from aliquot.service.leadership.ports import orchestrator_view
from aliquot.service.metrics.health import Availability, LoopLag
from aliquot.settings import LOOPBACK, Settings
from aliquot.store.cluster_mark import MARK_FILE, MarkFile
from aliquot.store.open import is_shared
from aliquot_schema.events import Entity
from aliquot_schema.graphql.context import Services
from aliquot_schema.ids import UserId
from aliquot_schema.views.server import RayView

if TYPE_CHECKING:
    from aliquot.api.oidc.code_flow import CodeFlow

SWITCH_INTERVAL_S: Final = 0.0005
"""Interval at which Python switches threads. With the default of 5 ms a scheduling pass delays each request by that."""


class Server(Struct, frozen=True, kw_only=True):
    """A started server, ready for its listener."""

    app: Starlette
    auth: TokenAuth
    running: Running
    devices_found: str
    """One line that describes the devices, for the start message."""
    token_file: Path
    open_connections: OpenConnections
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a background loop failed: the process has to be restarted."""


@asynccontextmanager
async def serving(settings: Settings, *, is_new: bool = False, accepts_clock: bool = False) -> AsyncIterator[Server]:
    """Start everything but the listener; stop it in reverse order. Kernels keep running.

    Args:
        is_new: whether to create a new cluster in an empty database.
        accepts_clock: whether to start although the newest event is more than a day ahead of the clock.
    Raises:
        ConfigurationError: a setting or a device file is wrong.
        StoreUnavailable: the database cannot be opened; the message says why.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    make_folders(settings.data_folder)
    nodes, words = agents_of(settings)
    token_file = token_file_of(settings)
    token = read_token(token_file)
    metrics = metrics_token(settings)
    mark = MarkFile(settings.data_folder / MARK_FILE, is_new=is_new)
    week = await begin_demo(settings)
    async with (
        _running(settings, nodes, token, mark=mark, accepts_clock=accepts_clock) as running,
        watched(running, settings) as (lag, availability),
        agent_keys_told(running, settings),
        mark_kept(running, mark),
        demo_kept(running, settings, week),
    ):
        people = running.cases.state.people
        owner = UserId(getpass.getuser())
        provider = identity_provider(settings, running.cases, owner=owner, token=token)
        auth = TokenAuth(
            token,
            owner,
            source=f"the file {token_file.name} in the server's data folder",
            people=people,
            door=None if provider is None else provider.door,
        )
        flow = None if provider is None else provider.flow
        open_connections = OpenConnections(auth)
        yield Server(
            app=make_app(
                settings,
                running,
                auth,
                flow,
                open_connections=open_connections,
                lag=lag,
                availability=availability,
                metrics_token=metrics,
            ),
            auth=auth,
            running=running,
            devices_found=words,
            token_file=token_file,
            open_connections=open_connections,
            failed=running.failed,
        )


def make_app(
    settings: Settings,
    running: Running,
    auth: TokenAuth,
    provider: "CodeFlow | None",
    *,
    open_connections: OpenConnections,
    lag: LoopLag,
    availability: Availability,
    metrics_token: str | None,
) -> Starlette:
    """The HTTP application of a server."""
    certificate = CertificateExpiry(settings.tls_certificate, wall_us=running.cases.clock.wall_us)
    running.cases.journal.subscribe(open_connections.note, to=(Entity.USER, Entity.KEY))
    return create_app(
        ApiDependencies(
            services=_services(settings, running),
            auth=auth,
            provider=provider,
            open_connections=open_connections,
            agents=running.agents,
            outputs=running.outputs,
            streams=running.cases.streams,
            files=running.cases.files,
            workspaces=running.cases.workspaces,
            server_streams=running.outputs,
            apps=_app_addresses(settings),
            allowed_hosts=settings.names,
            limits=_limits(settings),
            allowed_origins=settings.allowed_origins,
            conditions=lambda: conditions_of(running, lag, certificate),
            metrics=MetricsSources(
                state=running.cases.state,
                measures=running.cases.measures,
                database=running.database.measures,
                leads=lambda: running.cases.journal.leads,
                now_us=running.cases.clock.now_us,
                version=version("aliquot"),
                lag=lag,
                availability=availability,
                token=metrics_token,
                is_open=settings.metrics_open,
            ),
        )
    )


def _services(settings: Settings, running: Running) -> Services:
    return Services(
        queries=running.cases.queries,
        sessions=running.cases.sessions,
        subscriptions=running.cases.watching,
        administration=running.cases.administration,
        accounts=running.cases.accounts,
        external_allocations=running.cases.external_allocations,
        bookings=running.cases.bookings,
        booking_effect=running.cases.booking_effects.effect,
        booking_import=running.cases.booking_imports.run,
        history=running.cases.history,
        files=running.cases.files,
        templates=running.cases.templates,
        ray=lambda: _ray_status(running),
        orchestrator=lambda: replace(
            orchestrator_view(running.standing(), running.cases.state.orchestration),
            is_demo=settings.demo_live == "yes",
        ),
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        cost_per_minute=settings.query_cost_per_minute or None,
        introspection=settings.introspection,
        openapi_open=settings.openapi_open,
    )


def _app_addresses(settings: Settings) -> AppAddresses | AppPorts | None:
    """Origins of apps. Without a setting there are some only on a server that no other machine reaches."""
    if settings.apps_domain is None and settings.app_ports:
        return AppPorts(settings.app_ports, base=settings.address, port=settings.port)
    is_alone = settings.host in LOOPBACK and settings.address is None and not settings.behind_proxy
    domain = settings.apps_domain or ("apps.localhost" if is_alone else None)
    return None if domain is None else AppAddresses(domain, base=settings.address, own_host=settings.host)


def _running(
    settings: Settings, nodes: tuple[NodeDevices, ...], token: str, *, mark: MarkFile, accepts_clock: bool
) -> AbstractAsyncContextManager[Running]:
    """The server of these settings: standalone, or one of several when the database is shared."""
    clock, address = SystemClock(), settings.own_address
    keys = KeyFile(settings.data_folder / "server" / KEY_FILE)
    agents = AgentPlan(settings=settings, nodes=nodes, keys=keys, now_us=clock.now_us)
    outfit, url = outfit_of(settings, now_us=clock.now_us), settings.database or ""
    shared = is_shared(url)
    return open_server(
        ServerPlan(
            database_url=url,
            data_folder=settings.data_folder,
            address=address,
            token=token,
            clock=clock,
            keys=keys,
            make_side=lambda state, term: agent_side(agents, state, is_shared=shared, epoch=term.epoch),
            must_lead=bool(nodes),
            outfit=outfit,
            mark=mark,
            accepts_clock=accepts_clock,
            check_disk=own_disk(settings),
        )
    )


def _ray_status(running: Running) -> RayView | None:
    side = running.side()
    return None if side is None or side.ray is None else side.ray.status
