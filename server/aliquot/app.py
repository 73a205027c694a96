"""The composition root: joins settings, store, agents, use cases and the HTTP face. Only this file names them all."""

import asyncio
import getpass
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

from starlette.applications import Starlette

from aliquot.api.agent_socket import AgentDoor
from aliquot.api.application import ApiDependencies, create_app
from aliquot.api.authentication import TOKEN_CHARS_MIN, TokenAuth
from aliquot.clock import RandomIds, SystemClock
from aliquot.errors import ConfigurationError
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.core import AgentCore
from aliquot.execution.agent.job_user import JobUserPolicy
from aliquot.execution.agent.reach import Reach
from aliquot.execution.combined import CombinedExecutor
from aliquot.execution.devices.demo import demo_sources
from aliquot.execution.devices.division import divide
from aliquot.execution.devices.found import found
from aliquot.execution.devices.node_devices import NodeDevices, NodeSource, file_source, machine_source
from aliquot.execution.local import LocalExecutor
from aliquot.execution.ray.node.preparation import check_address, check_ray_installed
from aliquot.execution.ray.node.token_file import checked_token
from aliquot.execution.ray.supervisor import GatewaySupervisor
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.keys import KEY_FILE, KeyFile
from aliquot.execution.remote.timing import Timing
from aliquot.service.orchestrator import Orchestrator, Ports, load_state
from aliquot.service.ports import Executor, Store
from aliquot.service.registration import elsewhere
from aliquot.service.state import State
from aliquot.settings import Settings
from aliquot.store.opening import open_store
from aliquot_schema.ids import AgentId, UserId
from aliquot_schema.states import AgentState

TOKEN_FILE: Final = "token"
SWITCH_INTERVAL_S: Final = 0.0005
"""How often Python threads take turns: with the default of 5 ms a pass would hold up every request that long."""

log: Final = logging.getLogger("aliquot.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Everything that is running."""

    app: Starlette
    auth: TokenAuth
    executor: LocalExecutor
    orchestrator: Orchestrator
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
    auth = TokenAuth(read_token(token_file), UserId(getpass.getuser()), source=f"the file {token_file}")
    clock = SystemClock()
    store = open_store(settings.database or "", data_folder=settings.data_folder, now_us=clock.now_us)
    state, loaded = await load_state(store)
    clock.not_before(loaded.last_at_us)
    refuse_moved(nodes, state)
    local = LocalExecutor({node.agent_id: agent_factory(settings, node, clock.now_us) for node in nodes})
    agents = frozenset(node.agent_id for node in nodes)
    keys = KeyFile(settings.data_folder / "server" / KEY_FILE)
    expected = agents_expected(keys, state, through_ray=settings.executor == "ray") - agents
    remote = RemoteExecutor(
        keys=keys,
        timing=Timing(beat_s=settings.agent_beat_s, lost_s=settings.agent_lost_s),
        now_us=clock.now_us,
        expected=expected,
        taken_ids=agents,
        software_version=f"aliquot {version('aliquot')}",
        objection=lambda told: elsewhere(state, told.id, node_id=told.node_id, boot_id=told.boot_id),
    )
    ray = ray_gateway(settings, remote)
    executor = CombinedExecutor(dict.fromkeys(agents, local), otherwise=remote)
    ports = Ports(store=store, executor=executor, clock=clock, ids=RandomIds(), ledger=store.ledger)
    grace_ms = round(settings.grace_s * 1000)
    orchestrator = Orchestrator(ports, state=state, loaded=loaded, grace_ms=grace_ms)
    await orchestrator.forget_agents(agents | expected)
    failed = asyncio.Event()
    loops = asyncio.create_task(orchestrator.run())
    loops.add_done_callback(lambda task: _note_end(task, failed))
    try:
        await executor.start()
        if ray is not None:
            ray.start()
        joining = asyncio.create_task(orchestrator.until_reachable(agents))
        await asyncio.wait({joining, loops}, return_when=asyncio.FIRST_COMPLETED)
        joining.cancel()
        yield Server(
            app=make_app(settings, orchestrator, auth, failed, agents=remote, ray=ray),
            auth=auth,
            executor=local,
            orchestrator=orchestrator,
            devices_found=words,
            token_file=token_file,
            failed=failed,
        )
    finally:
        if ray is not None:
            await ray.close()
        await stop(loops, orchestrator, executor, store)


def make_app(
    settings: Settings,
    orchestrator: Orchestrator,
    auth: TokenAuth,
    failed: asyncio.Event,
    *,
    agents: AgentDoor | None = None,
    ray: GatewaySupervisor | None = None,
) -> Starlette:
    """The HTTP face of a running orchestrator."""
    return create_app(
        ApiDependencies(
            reader=orchestrator.queries,
            writer=orchestrator.sessions,
            watcher=orchestrator.watching,
            admin=orchestrator.administration,
            auth=auth,
            agents=agents,
            ray=lambda: None if ray is None else ray.status,
            allowed_hosts=settings.names,
            allowed_origins=settings.allowed_origins,
            ready=lambda: "a loop of the server has failed" if failed.is_set() else None,
        )
    )


def refuse_moved(nodes: tuple[NodeDevices, ...], state: State) -> None:
    """Refuse to go on, on this machine, with agents that hold devices of another one.

    Raises:
        ConfigurationError: one does.
    """
    for own in nodes:
        words = elsewhere(state, own.agent_id, node_id=own.node.node_id, boot_id=own.node.boot_id)
        if words is not None:
            raise ConfigurationError(f"{words}; --no-local-agents starts a server to say so")


def agents_expected(keys: KeyFile, state: State, *, through_ray: bool) -> frozenset[AgentId]:
    """Agents that were connected when the last server ended, and may be so again: by a key, or any through Ray.

    Raises:
        ConfigurationError: the file of their keys cannot be read.
    """
    try:
        known = keys.known()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the agents' keys cannot be read: {error}") from None
    there = (AgentState.ALIVE, AgentState.SUSPECT)
    missed = frozenset(agent.id for agent in state.agents.values() if agent.state in there)
    return missed if through_ray else missed & known


def ray_gateway(settings: Settings, agents: RemoteExecutor) -> GatewaySupervisor | None:
    """The way to the agents of a Ray cluster, not opened yet; None without one.

    Raises:
        ConfigurationError: the settings do not say where it is, or Ray is not installed.
    """
    if settings.executor != "ray":
        return None
    if settings.ray_head is None:
        raise ConfigurationError("ray-head: --executor ray needs the address of the cluster's head, HOST:PORT")
    check_ray_installed()
    check_address(settings.ray_head)
    token = None if settings.ray_token_file is None else checked_token(settings.ray_token_file)
    return GatewaySupervisor(settings.ray_head, agents=agents, token_file=token)


def agents_of(settings: Settings) -> tuple[tuple[NodeDevices, ...], str]:
    """The agents to run in this process, and a line for people on what they have.

    Raises:
        ConfigurationError: a device file cannot be used, or the devices cannot be divided as the settings say.
    """
    if settings.executor == "ray":
        return (), f"the nodes of the Ray cluster at {settings.ray_head}"
    if not settings.local_agents:
        return (), "no agents of its own"
    sources, words = node_sources(settings)
    division = settings.division
    divided = [divide(source, division) for source in sources]
    for warning in dict.fromkeys(warning for node in divided for warning in node.warnings):
        log.warning("%s", warning)
    agents = tuple(agent for node in divided for agent in node.agents)
    _refuse_namesakes(agents)
    return agents, f"{words}, divided among {len(agents)} agents" if division.agents else words


def node_sources(settings: Settings) -> tuple[tuple[NodeSource, ...], str]:
    """The nodes that this process runs agents for, and a line for people on what they have.

    Each file of accelerators is a node's agent of its own, unless the settings name the agents: then all files
    together are what these agents divide.

    Raises:
        ConfigurationError: a device file cannot be used, or agents are named for the demo cluster.
    """
    host, are_named = host_table(settings), bool(settings.agents)
    if settings.accelerators:
        groups = (settings.accelerators,) if are_named else tuple((path,) for path in settings.accelerators)
        words = "mock accelerators of " + ", ".join(str(path) for path in settings.accelerators)
        return tuple(file_source(paths, host=host) for paths in groups), words
    if settings.demo and are_named:
        raise ConfigurationError("agents: the demo cluster has agents of its own; try yours with --accelerators FILE")
    if settings.demo:
        return demo_sources(), "a demo cluster of two mock nodes with 8 H100 each"
    here = found()
    if are_named:
        return (machine_source(host=host),), here.words if here.gpus else "no GPUs"
    return here.nodes(host=host), here.words


def host_table(settings: Settings) -> dict[str, object]:
    """What of the host's own CPUs and memory is not handed out."""
    return {"reserved-cpu": settings.reserved_cpu, "reserved-mem": settings.reserved_mem}


def agent_factory(settings: Settings, node: NodeDevices, now_us: Callable[[], int]) -> Callable[[], AgentCore]:
    """How to make one agent, and make it again."""
    config = AgentConfig(
        id=node.agent_id,
        node=node.node,
        folder=settings.data_folder / "agents" / node.agent_id,
        allocation_mode=node.allocation_mode,
        scaling_factor=node.scaling_factor,
        job_user=JobUserPolicy(name=settings.job_user, allow_root=settings.allow_root_jobs),
        readings_interval_s=settings.readings_interval_s,
        memory_policy=settings.gpu_memory_policy,
        reach=Reach.of(address=settings.agent_address, ports=settings.rendezvous_ports),
    )
    return lambda: AgentCore(config, devices=node.devices, now_us=now_us)


def make_folders(data_folder: Path) -> None:
    """The data folder, which job users may pass through, with the part inside that is the server's alone.

    Raises:
        ConfigurationError: it cannot be made or written.
    """
    try:
        data_folder.mkdir(parents=True, exist_ok=True)
        data_folder.chmod(0o711)
        for name, mode in (("server", 0o700), ("agents", 0o711)):
            (data_folder / name).mkdir(exist_ok=True)
            (data_folder / name).chmod(mode)
    except OSError as error:
        raise ConfigurationError(
            f"data-folder: {data_folder} cannot be used ({error.strerror}); give another with --data-folder"
        ) from error


def read_token(path: Path) -> str:
    """The server's token; made at the first start, readable by its owner alone.

    Raises:
        ConfigurationError: the file holds no token, or cannot be read.
    """
    try:
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            os.fchmod(file.fileno(), 0o600)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error}") from None
    if len(token) < TOKEN_CHARS_MIN or not token.isascii():
        raise ConfigurationError(
            f"the token file {path} must hold at least {TOKEN_CHARS_MIN} ASCII characters; delete it to have one made"
        )
    return token


async def stop(loops: asyncio.Task[None], orchestrator: Orchestrator, executor: Executor, store: Store) -> None:
    """Stop in the reverse order of starting; what fails to stop keeps nothing else from it."""
    async with AsyncExitStack() as rest:
        for part in (store, executor, orchestrator):
            rest.push_async_callback(part.close)
        loops.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await loops


def _refuse_namesakes(nodes: tuple[NodeDevices, ...]) -> None:
    names = [node.agent_id for node in nodes]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise ConfigurationError(
                f"accelerators: two files would both be the agent {name}; each needs a file name of its own"
            )


def _note_end(task: asyncio.Task[None], failed: asyncio.Event) -> None:
    if task.cancelled():
        return
    log.critical("a loop of the server failed; it has to be started again", exc_info=task.exception())
    failed.set()
