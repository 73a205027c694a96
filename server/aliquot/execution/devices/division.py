"""Division of a node: from its devices and the tables of the configuration to the parts of its agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aliquot.core.allocation.claims import claimed
from aliquot.core.allocation.partition import (
    PARTITIONERS,
    Partitioner,
    PartitionRefused,
    Parts,
    auto_split,
    left_over,
    scaling_factors,
)
from aliquot.core.allocation.selection import Selection
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.division_tables import Division
from aliquot.execution.devices.node_devices import NodeDevices, NodeSource
from aliquot.execution.devices.part import FixedPart, Part
from aliquot.execution.devices.plugin import DeviceFileError, DevicePlugin, PartitioningPlugin
from aliquot_schema.agents import AllocationMode
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, SlotName


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedNode:
    """The agents of a node, ready to be started."""

    agents: tuple[NodeDevices, ...]
    """In the order of the configuration."""
    warnings: tuple[str, ...] = ()
    """What an operator should know, a line each."""


def divide(source: NodeSource, division: Division) -> DividedNode:
    """Make the agents of a node: the one that it has by itself, or those that the configuration names.

    The same for agents of every transport. Looks at the devices once; nothing is kept open.

    Raises:
        DeviceFileError: a plugin refuses its configuration, or the node cannot be divided so.
    """
    selection = division.devices.selection
    if not division.agents and selection == Selection():
        return DividedNode(agents=(source.whole(),))
    plugins = source.plugins()
    everything = DeviceSet(plugins)
    try:
        devices = everything.discover()
        selection.check(devices)
        agents, unowned = _agents(source, division, devices=selection.of(devices), plugins=plugins)
        failed = tuple(f"device plugin {kind} failed: {words}" for kind, words in everything.failures.items())
        return DividedNode(agents=agents, warnings=failed + unowned)
    except PartitionRefused as refusal:
        raise DeviceFileError(str(refusal)) from refusal
    finally:
        everything.close()


def part_of(source: NodeSource, division: Division, *, agent_id: AgentId | None) -> DividedNode:
    """One agent of the node, for a process that runs it alone: every such process divides the node alike.

    Args:
        agent_id: which one; where no agents are named, what to call the one that there is.
    Raises:
        DeviceFileError: see `divide`; or agents are named, and this is none of them.
    """
    divided = divide(source, division)
    if not division.agents:
        (whole,) = divided.agents
        return divided if agent_id is None else replace(divided, agents=(replace(whole, agent_id=agent_id),))
    chosen = tuple(agent for agent in divided.agents if agent.agent_id == agent_id)
    if not chosen:
        names = ", ".join(agent.agent_id for agent in divided.agents)
        raise DeviceFileError(f"agents: this node is divided among {names}; say with --id which of them to be")
    return replace(divided, agents=chosen)


def _agents(
    source: NodeSource, division: Division, *, devices: tuple[Device, ...], plugins: Sequence[DevicePlugin]
) -> tuple[tuple[NodeDevices, ...], tuple[str, ...]]:
    """The agents, and a warning where something is left over."""
    selection = division.devices.selection
    if not division.agents:
        return (_agent(source, source.agent_id, part=selection),), ()
    parts = _parts(division, devices=devices, plugins=plugins)
    slots = [slot for plugin in plugins for slot in plugin.slot_types()]
    agents = tuple(
        _agent(
            source,
            agent_id,
            part=selection if division.mode is AllocationMode.SHARED else FixedPart(part),
            mode=division.mode,
            factors=scaling_factors(part, node=devices, slots=slots),
        )
        for agent_id, part in parts.items()
    )
    rest = left_over(devices, parts=parts)
    return agents, (f"no agent has {', '.join(rest)}; nothing can run there",) if rest else ()


def _parts(division: Division, *, devices: tuple[Device, ...], plugins: Sequence[DevicePlugin]) -> Parts:
    names = [AgentId(agent.id) for agent in division.agents]
    if division.mode is AllocationMode.SHARED:
        return dict.fromkeys(names, devices)
    if division.mode is AllocationMode.MANUAL:
        return claimed(devices, claims=[agent.claim for agent in division.agents])
    return auto_split(devices, agents=names, partitioners={**PARTITIONERS, **_own_partitioners(devices, plugins)})


def _own_partitioners(devices: Sequence[Device], plugins: Sequence[DevicePlugin]) -> dict[str, Partitioner]:
    """By kind of device: those of plugins that bring one, for all kinds whose slots are theirs."""
    return {
        device.kind: _guarded(plugin)
        for plugin in plugins
        if isinstance(plugin, PartitioningPlugin)
        for device in devices
        if device.costs.keys() & plugin.slot_types().keys()
    }


def _guarded(plugin: PartitioningPlugin) -> Partitioner:
    """Code from outside may raise anything."""

    def partition(devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        try:
            return plugin.partition(devices, agents=agents)
        except Exception as error:
            words = f"device plugin {plugin.kind} cannot divide its devices: {type(error).__name__}: {error}"
            raise PartitionRefused(words) from error

    return partition


def _agent(
    source: NodeSource,
    agent_id: AgentId,
    *,
    part: Part,
    mode: AllocationMode = AllocationMode.SHARED,
    factors: Mapping[SlotName, str] | None = None,
) -> NodeDevices:
    return NodeDevices(
        agent_id=agent_id,
        node=source.node,
        devices=DeviceSet(source.plugins(), part=part),
        allocation_mode=mode,
        scaling_factor=factors or {},
    )
