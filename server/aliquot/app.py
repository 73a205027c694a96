"""The composition root: joins settings, store, agents, use cases and the HTTP face. Only this file names them all."""

import asyncio
import getpass
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

from starlette.applications import Starlette

from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.authentication import TokenAuth
from aliquot.api.held_open import HeldOpen
from aliquot.api.limits import Limits
from aliquot.api.metrics.sources import MetricsSources
from aliquot.clock import SystemClock
from aliquot.composition.agent_keys import agent_keys_told
from aliquot.composition.agent_side import AgentPlan, agent_side
from aliquot.composition.alone import AlonePlan, lone_server
from aliquot.composition.folders import TOKEN_FILE, make_folders, read_token
from aliquot.composition.history import history_kept
from aliquot.composition.identity import door_of
from aliquot.composition.outfit import outfit_of
from aliquot.composition.own_agents import agents_of
from aliquot.composition.running import Running
from aliquot.composition.watching import conditions_of, metrics_token, watched
from aliquot.execution.devices.node_devices import NodeDevices
from aliquot.execution.remote.keys import KEY_FILE, KeyFile
from aliquot.service.leadership.standing import orchestrator_view
from aliquot.service.measuring.loop_lag import LoopLag
from aliquot.settings import Settings
from aliquot.store.shared_url import is_shared
from aliquot_schema.ids import UserId
from aliquot_schema.ray_views import RayView

SWITCH_INTERVAL_S: Final = 0.0005
"""How often Python threads take turns: with the default of 5 ms a pass would hold up every request that long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Everything that is running."""

    app: Starlette
    auth: TokenAuth
    running: Running
    devices_found: str
    """A line for people: which devices there are."""
    token_file: Path
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a loop ended that must not: the process has to be started again."""


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Server]:
    """Start everything but the listener, in order; stop it in reverse. Kernels run on.

    Raises:
        ConfigurationError: a setting or a device file is wrong.
        StoreUnavailable: the database cannot be opened; the message says why.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    make_folders(settings.data_folder)
    nodes, words = agents_of(settings)
    token_file = settings.data_folder / TOKEN_FILE
    token = read_token(token_file)
    metrics = metrics_token(settings)
    async with (
        _running(settings, nodes, token) as running,
        watched(running, settings) as lag,
        history_kept(running, settings),
        agent_keys_told(running, settings),
    ):
        running.cases.admit(trust=settings.trust, per_minute=settings.submissions_per_minute or None)
        people = running.cases.state.people
        owner = UserId(getpass.getuser())
        door = door_of(settings, running.cases, owner=owner)
        auth = TokenAuth(token, owner, source=f"the file {token_file}", people=people, door=door)
        yield Server(
            app=make_app(settings, running, auth, lag=lag, metrics_token=metrics),
            auth=auth,
            running=running,
            devices_found=words,
            token_file=token_file,
            failed=running.failed,
        )


def make_app(
    settings: Settings, running: Running, auth: TokenAuth, *, lag: LoopLag, metrics_token: str | None
) -> Starlette:
    """The HTTP face of a server."""
    held_open = HeldOpen(auth)
    running.cases.journal.listeners.append(held_open.note)
    return create_app(
        ApiDependencies(
            reader=running.cases.queries,
            writer=running.cases.sessions,
            watcher=running.cases.watching,
            admin=running.cases.administration,
            accounts=running.cases.accounts,
            auth=auth,
            held_open=held_open,
            agents=running.agents,
            outside=running.cases.outside,
            historian=running.cases.history,
            outputs=running.outputs,
            ray=lambda: _ray_status(running),
            orchestrator=lambda: orchestrator_view(running.standing(), running.cases.state.orchestration),
            allowed_hosts=settings.names,
            limits=Limits(cost_per_minute=settings.query_cost_per_minute or None, introspection=settings.introspection),
            allowed_origins=settings.allowed_origins,
            conditions=lambda: conditions_of(running, lag),
            metrics=MetricsSources(
                state=running.cases.state,
                measures=running.cases.measures,
                database=running.database.measures,
                leads=lambda: running.cases.journal.leads,
                now_us=running.cases.clock.now_us,
                version=version("aliquot"),
                lag=lag,
                token=metrics_token,
                is_open=settings.metrics_open,
            ),
        )
    )


def _running(settings: Settings, nodes: tuple[NodeDevices, ...], token: str) -> AbstractAsyncContextManager[Running]:
    """Alone with its database, or one of several where the database can be shared."""
    clock, address = SystemClock(), settings.own_address
    keys = KeyFile(settings.data_folder / "server" / KEY_FILE)
    agents = AgentPlan(settings=settings, nodes=nodes, keys=keys, now_us=clock.now_us)
    outfit, url = outfit_of(settings, now_us=clock.now_us), settings.database or ""
    if is_shared(url):
        # Imported here: a start on SQLite does without the driver of PostgreSQL.
        from aliquot.composition.shared import SharedPlan, shared_server

        return shared_server(
            SharedPlan(
                database_url=url,
                address=address,
                token=token,
                clock=clock,
                keys=keys,
                make_side=lambda state, term: agent_side(agents, state, is_shared=True, epoch=term.epoch),
                must_lead=bool(nodes),
                outfit=outfit,
            )
        )
    return lone_server(
        AlonePlan(
            database_url=url,
            data_folder=settings.data_folder,
            address=address,
            clock=clock,
            make_side=lambda state: agent_side(agents, state, is_shared=False, epoch=0),
            outfit=outfit,
        )
    )


def _ray_status(running: Running) -> RayView | None:
    side = running.side()
    return None if side is None or side.ray is None else side.ray.status
