"""Agents of a server: local agents built from the settings, and the connections to remote and Ray agents.

Local agents run in the server's process and describe this host. `AgentExecutors` holds the executors of one term; only
a leader has one. Files that hold secrets of the server are hidden from sandboxed jobs.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.agent.config import AgentConfig, NodeEndpoint
from aliquot.execution.agent.job_user import JobUserPolicy, account_exists, resolve_user
from aliquot.execution.devices.node import NodeDevices, NodeSource, demo_sources, file_source, found, machine_source
from aliquot.execution.devices.partitioning import divide
from aliquot.execution.executors import CombinedExecutor, LocalExecutor
from aliquot.execution.remote.agent_keys import AgentKeys
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.execution.remote.presence import HeartbeatTiming
from aliquot.service.access import JobAccounts
from aliquot.service.lifecycle.agent_registration import claimed_twice, elsewhere
from aliquot.service.ports import Executor
from aliquot.service.state.state import State
from aliquot.settings import Settings, settings_file
from aliquot.store.open import sqlite_path
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.errors import Forbidden, InvalidRequest
from aliquot_schema.ids import AgentId
from aliquot_schema.states import AgentState

if TYPE_CHECKING:
    from aliquot.execution.ray.supervisor import GatewaySupervisor


_OF_RECEIVERS: Final = ("url_file", "key_file", "password_file")
_SQLITE: Final = "sqlite:///"


def token_file_of(settings: Settings) -> Path:
    """The file with the server's token. That of the living demo is not in its own folder but in the data folder, where
    the command line looks for it."""
    return (settings.data_folder.parent if settings.demo_live == "yes" else settings.data_folder) / "token"


def hidden_of(settings: Settings) -> list[Path]:
    """Files and folders hidden from sandboxed jobs, even from those of the server's account: data, keys, settings."""
    files = [
        settings.secrets_key_file,
        settings.tls_key,
        settings.ray_token_file,
        settings.metrics_token_file,
        settings.archive_folder,
        settings_file(),
        *(getattr(receiver, name, None) for receiver in settings.receivers for name in _OF_RECEIVERS),
    ]
    return [
        settings.data_folder.absolute(),
        token_file_of(settings).absolute(),
        *(path.absolute() for path in files if path is not None),
        *_database_files(settings.database or ""),
    ]


def _database_files(url: str) -> Iterator[Path]:
    """The SQLite database and its write-ahead log, which may be outside the data folder."""
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE).partition("?")[0]
        yield from (Path(path + ending).absolute() for ending in ("", "-wal"))


log: Final = logging.getLogger("aliquot.app")


def agents_of(settings: Settings) -> tuple[tuple[NodeDevices, ...], str]:
    """The agents to run in this process, and a line that describes their devices.

    Raises:
        ConfigurationError: a device file is invalid, or the devices cannot be divided as configured.
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
    """The nodes that this process runs agents for, and a line that describes their devices.

    Each file of accelerators becomes one agent. When the settings name agents, these divide the devices of all files.

    Raises:
        ConfigurationError: a device file is invalid, or agents are named for the demo cluster.
    """
    host, are_named = host_table(settings), bool(settings.agents)
    if settings.accelerators:
        groups = (settings.accelerators,) if are_named else tuple((path,) for path in settings.accelerators)
        words = "mock accelerators of " + ", ".join(str(path) for path in settings.accelerators)
        return tuple(file_source(paths, host=host) for paths in groups), words
    if settings.demo and are_named:
        raise ConfigurationError(
            "agents: --demo makes agents of its own, so the configured ones would be ignored; leave out --demo, or use "
            "--accelerators FILE"
        )
    if settings.demo:
        words = "a demo cluster of two mock nodes with 8 H100 each"
        return demo_sources(is_synthetic=settings.demo_live == "yes"), words
    here = found()
    if are_named:
        return (machine_source(host=host),), here.words if here.gpus else "no GPUs"
    return here.nodes(host=host), here.words


def job_accounts(settings: Settings) -> JobAccounts:
    """The Unix accounts of this host, and the one that jobs without an account of their own run as."""
    default = None
    if settings.local_agents:
        policy = JobUserPolicy(name=settings.job_user, allow_root=settings.allow_root_jobs)
        try:
            default = resolve_user(policy, asked=None, uid=os.geteuid(), environment=os.environ).name
        except (InvalidRequest, Forbidden) as error:
            default = f"no account: {error.message}"
    return JobAccounts(hostname=socket.gethostname(), default=default, exists=account_exists)


def host_table(settings: Settings) -> dict[str, object]:
    """CPUs and memory of the host that are reserved, in the form of a device file's `host` table."""
    return {"reserved-cpu": settings.reserved_cpu, "reserved-mem": settings.reserved_mem}


def agent_factory(settings: Settings, node: NodeDevices, now_us: Callable[[], int]) -> Callable[[], AgentCore]:
    """Factory of one agent; it is called again when the agent restarts."""
    config = AgentConfig(
        id=node.agent_id,
        node=node.node,
        folder=settings.data_folder / "agents" / node.agent_id,
        allocation_mode=node.allocation_mode,
        scaling_factor=node.scaling_factor,
        job_user=JobUserPolicy(name=settings.job_user, allow_root=settings.allow_root_jobs),
        readings_interval_s=settings.readings_interval_s,
        confinement=settings.confinement_rules(*hidden_of(settings)),
        gate_devices=settings.device_access == "auto",
        memory_policy=settings.gpu_memory_policy,
        disk=settings.disk_rules,
        reach=NodeEndpoint.of(address=settings.agent_address, ports=settings.rendezvous_ports),
        health=settings.health_rules,
        notices=settings.node_notices,
    )
    return lambda: AgentCore(config, devices=node.devices, now_us=now_us)


def _refuse_namesakes(nodes: tuple[NodeDevices, ...]) -> None:
    names = [node.agent_id for node in nodes]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise ConfigurationError(
                f"accelerators: two files are named {name}, and an agent is named after its file; rename one"
            )


def own_disk(settings: Settings) -> Callable[[], str | None]:
    """Check of the disks of the data folder and of SQLite: returns a message when space is short, otherwise None."""
    folders = [settings.data_folder]
    database = sqlite_path(settings.database or "", data_folder=settings.data_folder)
    if database is not None:
        folders.append(database.absolute().parent)

    def shortage() -> str | None:
        found = (settings.disk_rules.shortage(folder) for folder in folders)
        return next((words for words in found if words is not None), None)

    return shortage


class AgentExecutors(Struct, frozen=True, kw_only=True):
    """Executors of one term. Each term has a new one."""

    executor: Executor
    """Routes to `local` and `remote`."""
    local: LocalExecutor
    remote: RemoteExecutor
    ray: "GatewaySupervisor | None"
    own: frozenset[AgentId]
    """Agents in the server's process."""
    expected: frozenset[AgentId]
    """Remote agents that were connected to the previous leader and may reconnect."""

    async def start(self) -> None:
        """Start local agents and accept remote ones."""
        await self.executor.start()
        if self.ray is not None:
            self.ray.start()

    async def close(self) -> None:
        """Disconnect from all agents; kernels keep running. A failure to close one part does not skip the others."""
        async with AsyncExitStack() as rest:
            rest.push_async_callback(self.executor.close)
            if self.ray is not None:
                rest.push_async_callback(self.ray.close)


class AgentPlan(Struct, frozen=True, kw_only=True):
    """Everything an `AgentExecutors` is made of."""

    settings: Settings
    nodes: tuple[NodeDevices, ...]
    """Devices of the agents in the server's process."""
    keys: AgentKeys
    now_us: Callable[[], int]


def agent_side(plan: AgentPlan, state: State, *, is_shared: bool, epoch: int) -> AgentExecutors:
    """Make the executors of a term; nothing is opened yet.

    Args:
        is_shared: whether another server may have led before: its agents are expected too, whichever key they have.
        epoch: the epoch of the term.
    Raises:
        ConfigurationError: settings or agent keys are invalid, or a local agent holds devices of another machine.
    """
    refuse_moved(plan.nodes, state)
    settings, own = plan.settings, frozenset(node.agent_id for node in plan.nodes)
    local = LocalExecutor({node.agent_id: agent_factory(settings, node, plan.now_us) for node in plan.nodes})
    expected = agents_expected(plan.keys, state, by_any=is_shared or settings.executor == "ray") - own
    remote = RemoteExecutor(
        keys=plan.keys,
        timing=HeartbeatTiming(beat_s=settings.agent_beat_s, lost_s=settings.agent_lost_s),
        now_us=plan.now_us,
        expected=expected,
        taken_ids=own,
        software_version=f"aliquot {version('aliquot')}",
        objection=lambda agent: agent_rejection(state, agent),
        on_broken=state.faults.note_refused,
        epoch=epoch if is_shared else 0,
    )
    return AgentExecutors(
        executor=CombinedExecutor(dict.fromkeys(own, local), otherwise=remote),
        local=local,
        remote=remote,
        ray=ray_gateway(settings, remote, epoch=epoch if is_shared else 0),
        own=own,
        expected=expected,
    )


def agent_rejection(state: State, agent: Agent) -> str | None:
    """Why a remote agent may not join; None when it may."""
    claimed = tuple(claimed_twice(state, agent).values())
    state.faults.note_claims(agent.id, claimed)
    return elsewhere(state, agent.id, node_id=agent.node_id, boot_id=agent.boot_id) or next(iter(claimed), None)


def refuse_moved(nodes: tuple[NodeDevices, ...], state: State) -> None:
    """Check that no local agent holds devices of another machine.

    Raises:
        ConfigurationError: an agent does.
    """
    for own in nodes:
        words = elsewhere(state, own.agent_id, node_id=own.node.node_id, boot_id=own.node.boot_id)
        if words is not None:
            raise ConfigurationError(f"{words}; start the server with --no-local-agents to correct this")


def agents_expected(keys: AgentKeys, state: State, *, by_any: bool) -> frozenset[AgentId]:
    """Agents that were connected when the last server ended and may reconnect.

    Args:
        by_any: include agents without a key in `keys`.
    Raises:
        ConfigurationError: the key file cannot be read.
    """
    try:
        known = keys.known()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the agents' keys cannot be read: {error}") from None
    there = (AgentState.ALIVE, AgentState.SUSPECT)
    missed = frozenset(agent.id for agent in state.agents.values() if agent.state in there)
    return missed if by_any else missed & known


def ray_gateway(settings: Settings, agents: RemoteExecutor, *, epoch: int) -> "GatewaySupervisor | None":
    """The gateway to the agents of a Ray cluster, not opened yet; None unless the executor is Ray.

    Raises:
        ConfigurationError: the address of the head is missing or invalid, or Ray is not installed.
    """
    if settings.executor != "ray":
        return None
    # Imported here: servers without Ray do not load it.
    from aliquot.execution.ray.node.raylet import check_address, check_ray_installed
    from aliquot.execution.ray.node.token_file import checked_token
    from aliquot.execution.ray.supervisor import GatewaySupervisor

    if settings.ray_head is None:
        raise ConfigurationError("ray-head: --executor ray needs the address of the cluster's head, HOST:PORT")
    if settings.demo or settings.accelerators:
        raise ConfigurationError(
            "accelerators: on Ray each node reports its own devices; give the file to `aliquot node start`"
        )
    check_ray_installed()
    check_address(settings.ray_head)
    token = None if settings.ray_token_file is None else checked_token(settings.ray_token_file)
    return GatewaySupervisor(settings.ray_head, agents=agents, token_file=token, epoch=epoch)
