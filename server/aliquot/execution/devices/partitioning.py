"""Node partitioning: divides a node's devices among its agents as the tables of `aliquot.toml` say."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from aliquot.core.allocation.node_partition import (
    CPU,
    PARTITIONERS,
    DeviceClaim,
    DeviceSelection,
    Partitioner,
    PartitionRefused,
    Parts,
    auto_split,
    claimed,
    left_over,
    scaling_factors,
)
from aliquot.execution.devices.device_set import DevicePartition, DeviceSet, FixedDevices
from aliquot.execution.devices.node import NodeDevices, NodeSource
from aliquot.execution.devices.plugin import DeviceFileError, DevicePlugin, PartitioningPlugin
from aliquot.execution.devices.tables import Size, Table
from aliquot.service.setting_errors import identifier
from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.ids import AgentId, SlotName
from aliquot_schema.resources.devices import Device

_NEW_FORM: Final = 'name the devices themselves, as in [agents.resource.allocations.devices] cuda = ["cuda0", "cuda1"]'


class ResourceTable(Table):
    """`[resource]`."""

    allocation_mode: Annotated[AllocationMode, Field(strict=False, alias="allocation-mode")] = AllocationMode.SHARED

    @field_validator("allocation_mode", mode="before")
    @classmethod
    def _spelled(cls, value: Any) -> Any:
        """`AUTO_SPLIT` and `auto_split` are `auto-split`."""
        return value.strip().lower().replace("_", "-") if isinstance(value, str) else value


class DevicesTable(Table):
    """`[devices]`: the devices of the node that Aliquot manages."""

    include: list[str] = Field(default_factory=list)
    exclude: list[str] = Field(default_factory=list)

    @property
    def selection(self) -> DeviceSelection:
        """The table as a value of `core`."""
        return DeviceSelection(include=frozenset(self.include), exclude=frozenset(self.exclude))


class AllocationsTable(Table):
    """`[agents.resource.allocations]`, for `allocation-mode = "manual"`."""

    cpu: list[str] = Field(default_factory=list)
    """CPU numbers, as strings."""
    mem: Size = Field(default=0, ge=0)
    devices: dict[str, list[str]] = Field(default_factory=dict)
    """Names or ids of devices, by kind."""

    @model_validator(mode="before")
    @classmethod
    def _by_device(cls, values: Any) -> Any:
        """Reject the old form (amounts of slots per agent) with a message that shows the new one."""
        for slot, amount in values.items() if isinstance(values, dict) else ():
            if "." in slot:
                raise _old_form(slot, amount)
        return values

    @field_validator("cpu", mode="before")
    @classmethod
    def _by_number(cls, value: Any) -> Any:
        if isinstance(value, list):
            return value
        message = 'cpu = {value} is a count; name the CPUs, as in cpu = ["0", "1", "2", "3"]'
        raise PydanticCustomError("count", message, {"value": repr(value)})

    @field_validator("devices", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        for kind, names in value.items() if isinstance(value, dict) else ():
            for slot, amount in names.items() if isinstance(names, dict) else ():
                raise _old_form(f"{kind}.{slot}", amount)
            if not isinstance(names, list):
                raise _old_form(kind, names)
        return value

    def claim(self, agent_id: AgentId) -> DeviceClaim:
        """The table as a value of `core`."""
        named = self.devices | ({CPU: self.cpu} if self.cpu else {})
        return DeviceClaim(agent_id=agent_id, devices=named, memory_bytes=self.mem)


class AgentResourceTable(Table):
    """`[agents.resource]`."""

    allocations: AllocationsTable | None = None


class AgentTable(Table):
    """One of `[[agents]]`."""

    id: Annotated[str, identifier(characters_max=63)]
    """Unique in the cluster; also the name of the agent's folder."""
    resource: AgentResourceTable = AgentResourceTable()

    @property
    def claim(self) -> DeviceClaim:
        """The devices claimed by name."""
        return (self.resource.allocations or AllocationsTable()).claim(AgentId(self.id))


class Division(Table):
    """The tables of `aliquot.toml` that divide a node, checked for consistency."""

    resource: ResourceTable = ResourceTable()
    agents: list[AgentTable] = Field(default_factory=list)
    devices: DevicesTable = DevicesTable()

    @property
    def mode(self) -> AllocationMode:
        """How the devices are divided."""
        return self.resource.allocation_mode

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [agent.id for agent in self.agents]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        given = [agent.id for agent in self.agents if agent.resource.allocations is not None]
        if twice:
            raise PydanticCustomError("twice", "agents: two are named {name}", {"name": twice[0]})
        if self.mode is not AllocationMode.MANUAL and given:
            message = 'agents: {name} has allocations; they need [resource] allocation-mode = "manual"'
            raise PydanticCustomError("allocations", message, {"name": given[0]})
        if self.mode is not AllocationMode.SHARED and not self.agents:
            message = "resource.allocation-mode: {mode} divides the node among agents; name them as [[agents]]"
            raise PydanticCustomError("no_agents", message, {"mode": self.mode.value})
        return self


def _old_form(slot: str, amount: object) -> PydanticCustomError:
    message = '"{slot}" = {amount} divides slots, which is the old form: ' + _NEW_FORM
    return PydanticCustomError("old_form", message, {"slot": slot, "amount": repr(amount)})


class DividedNode(Struct, frozen=True, kw_only=True):
    """The agents of a node with their devices, ready to start."""

    agents: tuple[NodeDevices, ...]
    """In the order of the configuration."""
    warnings: tuple[str, ...] = ()
    """Messages for the operator, one line each."""


def divide(source: NodeSource, division: Division) -> DividedNode:
    """Divide a node: the agents named in the configuration, or one agent with all devices.

    Independent of the agents' transport. Discovers the devices once and closes the plugins again.

    Raises:
        DeviceFileError: a plugin rejects its configuration, or the node cannot be divided as configured.
    """
    selection = division.devices.selection
    if not division.agents and selection == DeviceSelection():
        return DividedNode(agents=(source.whole(),))
    plugins = source.plugins()
    everything = DeviceSet(plugins)
    try:
        devices = everything.discover()
        selection.check(devices)
        agents, unowned = _agents(source, division, devices=selection.of(devices), plugins=plugins)
        failed = tuple(f"device plugin {kind} failed: {message}" for kind, message in everything.failures.items())
        return DividedNode(agents=agents, warnings=failed + unowned)
    except PartitionRefused as refusal:
        raise DeviceFileError(str(refusal)) from refusal
    finally:
        everything.close()


def part_of(source: NodeSource, division: Division, *, agent_id: AgentId | None) -> DividedNode:
    """One agent of the node, for a process that runs a single agent. Division is deterministic across processes.

    Args:
        agent_id: the agent to run; without `[[agents]]`, the name of the node's only agent.
    Raises:
        DeviceFileError: see `divide`; or `[[agents]]` does not name this agent.
    """
    divided = divide(source, division)
    if not division.agents:
        (whole,) = divided.agents
        return divided if agent_id is None else replace(divided, agents=(replace(whole, agent_id=agent_id),))
    chosen = tuple(agent for agent in divided.agents if agent.agent_id == agent_id)
    if not chosen:
        names = ", ".join(agent.agent_id for agent in divided.agents)
        raise DeviceFileError(f"agents: this node is divided among {names}; choose one of them with --id")
    return replace(divided, agents=chosen)


def _agents(
    source: NodeSource, division: Division, *, devices: tuple[Device, ...], plugins: Sequence[DevicePlugin]
) -> tuple[tuple[NodeDevices, ...], tuple[str, ...]]:
    """The agents, and a warning if devices are left over."""
    selection = division.devices.selection
    if not division.agents:
        return (_agent(source, source.agent_id, part=selection),), ()
    parts = _parts(division, devices=devices, plugins=plugins)
    slots = [slot for plugin in plugins for slot in plugin.slot_types()]
    agents = tuple(
        _agent(
            source,
            agent_id,
            part=selection if division.mode is AllocationMode.SHARED else FixedDevices(part),
            mode=division.mode,
            factors=scaling_factors(part, node=devices, slots=slots),
        )
        for agent_id, part in parts.items()
    )
    rest = left_over(devices, parts=parts)
    return agents, (f"no agent has {', '.join(rest)}; no job can use them",) if rest else ()


def _parts(division: Division, *, devices: tuple[Device, ...], plugins: Sequence[DevicePlugin]) -> Parts:
    names = [AgentId(agent.id) for agent in division.agents]
    if division.mode is AllocationMode.SHARED:
        return dict.fromkeys(names, devices)
    if division.mode is AllocationMode.MANUAL:
        return claimed(devices, claims=[agent.claim for agent in division.agents])
    return auto_split(devices, agents=names, partitioners={**PARTITIONERS, **_own_partitioners(devices, plugins)})


def _own_partitioners(devices: Sequence[Device], plugins: Sequence[DevicePlugin]) -> dict[str, Partitioner]:
    """Device kind -> partitioner of the plugin that owns the kind's slots; only plugins with one."""
    return {
        device.kind: _wrapped(plugin)
        for plugin in plugins
        if isinstance(plugin, PartitioningPlugin)
        for device in devices
        if device.costs.keys() & plugin.slot_types().keys()
    }


def _wrapped(plugin: PartitioningPlugin) -> Partitioner:
    """Third-party code may raise any exception; each becomes a `PartitionRefused`."""

    def partition(devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        try:
            return plugin.partition(devices, agents=agents)
        except Exception as error:
            message = f"device plugin {plugin.kind} cannot divide its devices: {type(error).__name__}: {error}"
            raise PartitionRefused(message) from error

    return partition


def _agent(
    source: NodeSource,
    agent_id: AgentId,
    *,
    part: DevicePartition,
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
