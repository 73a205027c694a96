"""Agent setup: builds a remote agent from its command-line options and configuration file."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.agent.config import AgentConfig, NodeEndpoint
from aliquot.execution.agent.gpu_memory import MemoryPolicy
from aliquot.execution.agent.isolation.settings import ConfinementRules
from aliquot.execution.agent.job_user import JobUserPolicy
from aliquot.execution.devices.node import NodeDevices, NodeSource, demo_sources, file_source, machine_source
from aliquot.execution.devices.partitioning import Division, part_of
from aliquot.execution.devices.plugin import DeviceFileError
from aliquot.execution.remote.agent_keys import check_agent_id
from aliquot.execution.settings import DiskRules, HealthRules, NoticeRules
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId

_log: Final = logging.getLogger("aliquot.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The flags of `aliquot agent`."""

    data_folder: Path
    accelerators: Path | None = None
    id: str | None = None
    demo_node: int | None = None
    reserved_cpu: int = 0
    reserved_mem: str = "512m"
    job_user: str | None = None
    allow_root_jobs: bool = False
    reach: NodeEndpoint = field(default_factory=NodeEndpoint)
    memory_policy: MemoryPolicy = MemoryPolicy.FLAG
    readings_interval_s: float = 2.0
    gate_devices: bool = True
    disk: DiskRules = field(default_factory=DiskRules)
    confinement: ConfinementRules = field(default_factory=ConfinementRules)
    health: HealthRules = field(default_factory=HealthRules)
    notices: NoticeRules = field(default_factory=NoticeRules)
    division: Division = field(default_factory=Division)
    """Division of the node among agents; this agent is one of them."""

    @property
    def user_policy(self) -> JobUserPolicy:
        """Which accounts jobs may run as."""
        return JobUserPolicy(name=self.job_user, allow_root=self.allow_root_jobs)


def agent_node(options: AgentOptions) -> NodeDevices:
    """The agent's part of the node. Devices are discovered only if the node is divided.

    Raises:
        ConfigurationError: a file or a flag is invalid, or the node cannot be divided as configured.
    """
    try:
        asked = None if options.id is None else AgentId(options.id)
        divided = part_of(_source(options), options.division, agent_id=asked)
        (node,) = divided.agents
        check_agent_id(node.agent_id)
    except DeviceFileError as error:
        raise ConfigurationError(str(error)) from error
    except InvalidRequest as error:
        raise ConfigurationError(f"id: {error.message}") from error
    for warning in divided.warnings:
        _log.warning("%s", warning)
    return node


def agent_folder(options: AgentOptions, agent_id: AgentId) -> Path:
    """The agent's folder; the same as for an agent inside a server process."""
    return options.data_folder.absolute() / "agents" / agent_id


def agent_core(options: AgentOptions, *, now_us: Callable[[], int]) -> AgentCore:
    """Create the agent, not opened yet, and the parents of its folder.

    Raises:
        ConfigurationError: a file or a flag is invalid, or the data folder cannot be created.
    """
    node = agent_node(options)
    folder = agent_folder(options, node.agent_id)
    try:
        for path in (options.data_folder, folder.parent):
            path.mkdir(mode=0o711, parents=True, exist_ok=True)
            path.chmod(0o711)  # job users pass through
    except OSError as error:
        raise ConfigurationError(
            f"data-folder: {options.data_folder} cannot be used ({error.strerror}); choose another with --data-folder"
        ) from error
    config = AgentConfig(
        id=node.agent_id,
        node=node.node,
        folder=folder,
        job_user=options.user_policy,
        allocation_mode=node.allocation_mode,
        scaling_factor=node.scaling_factor,
        software_version=software_version(),
        reach=options.reach,
        memory_policy=options.memory_policy,
        readings_interval_s=options.readings_interval_s,
        gate_devices=options.gate_devices,
        disk=options.disk,
        health=options.health,
        notices=options.notices,
        confinement=replace(options.confinement, hidden=(options.data_folder.absolute(), *options.confinement.hidden)),
    )
    return AgentCore(config, devices=node.devices, now_us=now_us)


def software_version() -> str:
    """Name and version of this software for the peer."""
    return f"aliquot {version('aliquot')}"


def _source(options: AgentOptions) -> NodeSource:
    host: dict[str, object] = {"reserved-cpu": options.reserved_cpu, "reserved-mem": options.reserved_mem}
    if options.accelerators is not None and options.demo_node is not None:
        raise ConfigurationError("accelerators: cannot be combined with a demo node, which has its own accelerators")
    if options.demo_node is not None:
        return demo_sources(nodes=options.demo_node)[-1]
    if options.accelerators is not None:
        return file_source((options.accelerators,), host=host)
    return machine_source(host=host)
