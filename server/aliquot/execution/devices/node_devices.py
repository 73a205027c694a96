"""What agents are made of: a node, and the devices that an agent has there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.identity import NodeIdentity, node_identity
from aliquot.execution.devices.mock import MockPlugin
from aliquot.execution.devices.plugin import DevicePlugin
from aliquot.execution.devices.registry import installed_plugins, load_plugins
from aliquot_schema.agents import AllocationMode
from aliquot_schema.ids import AgentId, SlotName


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """One agent's part of a node."""

    agent_id: AgentId
    node: NodeIdentity
    devices: DeviceSet
    allocation_mode: AllocationMode = AllocationMode.SHARED
    scaling_factor: Mapping[SlotName, str] = field(default_factory=dict)
    """The part of the node that this is, per slot; empty where the node was not divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSource:
    """A node with all its devices, before it is divided."""

    agent_id: AgentId
    """The name of its one agent, where it is not divided."""
    node: NodeIdentity
    plugins: Callable[[], Sequence[DevicePlugin]]
    """Makes them anew: agents never share a plugin, each asks its own from a thread of its own."""

    def whole(self) -> NodeDevices:
        """All of it, for one agent."""
        return NodeDevices(agent_id=self.agent_id, node=self.node, devices=DeviceSet(self.plugins()))


def machine_source(
    tables: Mapping[str, Mapping[str, object]] | None = None, *, host: Mapping[str, object] | None = None
) -> NodeSource:
    """This machine as it is; its one agent is named after the host.

    Args:
        tables: which plugins to load, and the configuration of each; None = every installed one but `mock`, without
            configuration. A plugin that cannot be loaded is logged and left out.
        host: configuration of the host plugin, where `tables` does not name it.
    """
    node = node_identity()
    return NodeSource(agent_id=AgentId(node.hostname), node=node, plugins=partial(_installed, tables, host))


def file_source(paths: Sequence[Path], *, host: Mapping[str, object] | None = None) -> NodeSource:
    """This machine with the mock accelerators of files in place of its own, each of another kind.

    Its one agent is named `<hostname>-<first file's stem>`. Several such nodes share the machine's CPUs and memory:
    their devices have the same ids on the same node.
    """
    node = node_identity()
    name = AgentId(f"{node.hostname}-{paths[0].stem}")
    return NodeSource(agent_id=name, node=node, plugins=partial(_described, tuple(paths), host))


def node_of_machine(
    tables: Mapping[str, Mapping[str, object]] | None = None, *, host: Mapping[str, object] | None = None
) -> NodeDevices:
    """All of `machine_source`.

    Raises:
        DeviceFileError: a table cannot be used, or two plugins are of one kind.
    """
    return machine_source(tables, host=host).whole()


def node_of_file(path: Path, *, host: Mapping[str, object] | None = None) -> NodeDevices:
    """All of `file_source`.

    Raises:
        DeviceFileError: the file or the table cannot be used.
    """
    return file_source((path,), host=host).whole()


def _installed(
    tables: Mapping[str, Mapping[str, object]] | None, host: Mapping[str, object] | None
) -> Sequence[DevicePlugin]:
    installed: dict[str, Mapping[str, object]] = {name: {} for name in installed_plugins() if name != "mock"} | {
        "host": host or {}
    }
    return load_plugins(installed if tables is None else tables).plugins


def _described(paths: Sequence[Path], host: Mapping[str, object] | None) -> Sequence[DevicePlugin]:
    return (*(MockPlugin({"file": path}) for path in paths), HostPlugin(host))
