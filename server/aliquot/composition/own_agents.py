"""The agents that a server runs in its own process, from what its settings say of this host."""

import logging
from collections.abc import Callable
from typing import Final

from aliquot.composition.hidden_files import hidden_of
from aliquot.errors import ConfigurationError
from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.core import AgentCore
from aliquot.execution.agent.job_user import JobUserPolicy
from aliquot.execution.agent.reach import Reach
from aliquot.execution.devices.demo import demo_sources
from aliquot.execution.devices.division import divide
from aliquot.execution.devices.found import found
from aliquot.execution.devices.node_devices import NodeDevices, NodeSource, file_source, machine_source
from aliquot.settings import Settings

log: Final = logging.getLogger("aliquot.app")


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
        confinement=settings.confinement_rules(*hidden_of(settings)),
        gate_devices=settings.device_access == "auto",
        memory_policy=settings.gpu_memory_policy,
        disk=settings.disk_rules,
        reach=Reach.of(address=settings.agent_address, ports=settings.rendezvous_ports),
    )
    return lambda: AgentCore(config, devices=node.devices, now_us=now_us)


def _refuse_namesakes(nodes: tuple[NodeDevices, ...]) -> None:
    names = [node.agent_id for node in nodes]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise ConfigurationError(
                f"accelerators: two files would both be the agent {name}; each needs a file name of its own"
            )
