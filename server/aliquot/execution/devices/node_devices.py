"""What agents are made of: a node, and the devices that an agent has there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.identity import NodeIdentity, node_identity
from aliquot.execution.devices.mock import MockPlugin
from aliquot.execution.devices.registry import installed_plugins, load_plugins
from aliquot_schema.ids import AgentId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDevices:
    """One agent's part of a node."""

    agent_id: AgentId
    node: NodeIdentity
    devices: DeviceSet


def node_of_machine(
    tables: Mapping[str, Mapping[str, object]] | None = None, *, host: Mapping[str, object] | None = None
) -> NodeDevices:
    """This machine as it is.

    Args:
        tables: which plugins to load, and the configuration of each; None = every installed one but `mock`, without
            configuration. A plugin that cannot be loaded is logged and left out.
        host: configuration of the host plugin, where `tables` does not name it.
    Raises:
        DeviceFileError: a table cannot be used, or two plugins are of one kind.
    """
    node = node_identity()
    installed: dict[str, Mapping[str, object]] = {name: {} for name in installed_plugins() if name != "mock"} | {
        "host": host or {}
    }
    wanted = installed if tables is None else tables
    plugins = load_plugins(wanted).plugins
    return NodeDevices(agent_id=AgentId(node.hostname), node=node, devices=DeviceSet(plugins))


def node_of_file(path: Path, *, host: Mapping[str, object] | None = None) -> NodeDevices:
    """An agent on this machine with the mock accelerators of a file; named `<hostname>-<file's stem>`.

    Several such agents share the machine's CPUs and memory: their devices have the same ids on the same node.

    Raises:
        DeviceFileError: the file or the table cannot be used.
    """
    node = node_identity()
    plugins = (MockPlugin({"file": path}), HostPlugin(host))
    return NodeDevices(agent_id=AgentId(f"{node.hostname}-{path.stem}"), node=node, devices=DeviceSet(plugins))
