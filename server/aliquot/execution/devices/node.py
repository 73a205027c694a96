"""Nodes: identity of a node and its boot, and the device sources of real machines, device files and the demo cluster.

The demo cluster replaces the machine's devices where there is no GPU: two mock nodes with eight H100 each.
"""

import hashlib
import hmac
import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field
from pydantic_settings import BaseSettings

from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.mock import MockDescription, MockDevice, MockPlugin, NumberFormat, SlotFormat
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot.execution.devices.plugin import DevicePlugin
from aliquot.execution.devices.registry import installed_plugins, load_plugins
from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.ids import AgentId, NodeId, SlotName
from aliquot_schema.resources.devices import Device

_PURPOSE: Final = b"aliquot node identity"
_MACHINE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class NodeIdentity(Struct, frozen=True, kw_only=True):
    """Identifies a node and its current boot."""

    node_id: NodeId
    boot_id: str
    """Changes with every boot; a new value means that all earlier processes are gone."""
    hostname: str


def node_identity(root: Path = Path("/")) -> NodeIdentity:
    """Identify this node.

    The node id is an HMAC of the machine id, which machine-id(5) asks to keep confidential, or of the host name if
    there is no machine id (containers). Machines cloned with their machine id appear as one node; their operator has
    to give each a machine id of its own.

    Args:
        root: parent folder of `/etc` and `/proc`.
    """
    hostname = socket.gethostname()
    secret = _machine_id(root) or f"hostname:{hostname}"
    digest = hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).hexdigest()
    return NodeIdentity(node_id=NodeId(digest[:32]), boot_id=_boot_id(root), hostname=hostname)


def _machine_id(root: Path) -> str | None:
    """32 hex digits, or None: the file is empty in images and says `uninitialized` during a first boot."""
    for name in ("etc/machine-id", "var/lib/dbus/machine-id"):
        text = _text(root / name)
        if _MACHINE_ID.fullmatch(text) and text.strip("0"):
            return text
    return None


def _boot_id(root: Path) -> str:
    boot_id = _text(root / "proc/sys/kernel/random/boot_id")
    if boot_id:
        return boot_id
    booted = re.search(r"^btime (\d+)$", _text(root / "proc/stat"), re.MULTILINE)
    return f"btime-{booted[1]}" if booted else "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


class NodeDevices(Struct, frozen=True, kw_only=True):
    """One agent's part of a node."""

    agent_id: AgentId
    node: NodeIdentity
    devices: DeviceSet
    allocation_mode: AllocationMode = AllocationMode.SHARED
    scaling_factor: Mapping[SlotName, str] = field(default_factory=dict)
    """Fraction of the node that this agent has, per slot; empty if the node is not divided."""


class NodeSource(Struct, frozen=True, kw_only=True):
    """A node with all its devices, before it is divided."""

    agent_id: AgentId
    """Name of the only agent of an undivided node."""
    node: NodeIdentity
    plugins: Callable[[], Sequence[DevicePlugin]]
    """Creates new plugins: each agent calls its own plugins from its own thread."""

    def whole(self) -> NodeDevices:
        """The whole node as one agent's part."""
        return NodeDevices(agent_id=self.agent_id, node=self.node, devices=DeviceSet(self.plugins()))


def machine_source(*, host: Mapping[str, object] | None = None) -> NodeSource:
    """This machine with the devices of every installed plugin except `mock`; its only agent is named after the host.

    A plugin that cannot be loaded is logged and skipped.

    Args:
        host: configuration of the host plugin.
    """
    node = node_identity()
    return NodeSource(agent_id=AgentId(node.hostname), node=node, plugins=partial(_installed, host))


def file_source(paths: Sequence[Path], *, host: Mapping[str, object] | None = None) -> NodeSource:
    """This machine with the mock accelerators of device files (one kind per file) instead of its real ones.

    Its only agent is named `<hostname>-<first file's stem>`. Several such nodes share the machine's CPUs and memory:
    their devices have the same ids on the same node.
    """
    node = node_identity()
    name = AgentId(f"{node.hostname}-{paths[0].stem}")
    return NodeSource(agent_id=name, node=node, plugins=partial(_described, tuple(paths), host))


def _installed(host: Mapping[str, object] | None) -> Sequence[DevicePlugin]:
    return load_plugins({name: {} for name in installed_plugins() if name != "mock"} | {"host": host or {}}).plugins


def _described(paths: Sequence[Path], host: Mapping[str, object] | None) -> Sequence[DevicePlugin]:
    return (*(MockPlugin({"file": path}) for path in paths), HostPlugin(host))


class DemoSettings(BaseSettings):
    """Settings of the demo cluster, a part of `aliquot.settings.Settings`."""

    demo: bool = Field(False, description="Run the demo cluster even where there are real GPUs.")
    demo_live: Literal["no", "auto", "yes"] = Field(
        "no",
        description="Whether the demo cluster is alive: invented users, a week of history and a synthetic load, in the "
        "folder demo of the data folder. auto: on a machine without GPUs where no cluster has been started yet.",
    )


DEMO_MODEL: Final = "NVIDIA H100 80GB HBM3"
DEMO_MEMORY: Final = 81_559 * 1024**2
"""Bytes as a real H100 reports: 79.6 GiB, more than 80 * 10**9."""

_GPUS: Final = 8
_HOST: Final = {"cpu": 64, "mem": "512g", "numa-nodes": 2}
_SM_COUNT: Final = 132
_FORMATS: Final = {
    "device": SlotFormat(display_unit="GPU", human_readable_name="GPU"),
    "shares": SlotFormat(
        display_unit="GPU",
        human_readable_name="Fractional GPU",
        number_format=NumberFormat(round_length=2),
    ),
}


def demo_cluster(*, nodes: int = 2) -> tuple[NodeDevices, ...]:
    """The agents of `demo_sources`."""
    return tuple(source.whole() for source in demo_sources(nodes=nodes))


def demo_sources(*, nodes: int = 2, is_synthetic: bool = False) -> tuple[NodeSource, ...]:
    """Agents `demo-1`, `demo-2`, ..., each on its own mock node with declared CPUs and memory.

    All nodes run on this machine and may offer more CPUs than it has. Ids of nodes and GPUs are the same on every
    machine and after every start.

    Args:
        is_synthetic: see `MockPlugin`.
    """
    return tuple(_node(number, is_synthetic=is_synthetic) for number in range(1, nodes + 1))


def demo_description(number: int) -> MockDescription:
    """The accelerators of the demo node `number`, counted from 1; half of them on each of two NUMA nodes."""
    ids = [f"a11c0000-{number:04x}-4000-8000-{index:012x}" for index in range(_GPUS)]
    devices = [
        MockDevice(
            mother_uuid=ids[index],
            model_name=DEMO_MODEL,
            numa_node=index * 2 // _GPUS,
            subproc_count=_SM_COUNT,
            memory_size=DEMO_MEMORY,
            is_mig_device=False,
            linked_to=[other for other in ids if other != ids[index]],  # as by NVSwitch
        )
        for index in range(_GPUS)
    ]
    return MockDescription(slot_name="cuda", device_plugin_name="CUDADevice", devices=devices, formats=_FORMATS)


def _node(number: int, *, is_synthetic: bool) -> NodeSource:
    name = f"demo-{number}"
    return NodeSource(
        agent_id=AgentId(name),
        node=replace(node_identity(), node_id=NodeId(name), hostname=name),
        plugins=lambda: (MockPlugin(demo_description(number), is_synthetic=is_synthetic), HostPlugin(_HOST)),
    )


class DiscoveredDevices(Struct, frozen=True, kw_only=True):
    """The accelerators of this machine, and a one-line summary for display."""

    gpus: tuple[Device, ...]
    """Empty = the demo cluster is used instead."""
    words: str

    def nodes(self, *, host: Mapping[str, object] | None = None) -> tuple[NodeSource, ...]:
        """The nodes to run agents on: this machine if it has GPUs, else the demo cluster.

        Args:
            host: configuration of this machine's host plugin.
        """
        return (machine_source(host=host),) if self.gpus else demo_sources()


def found() -> DiscoveredDevices:
    """Discover real GPUs through NVML; the driver is released afterwards."""
    plugin = NvmlPlugin()
    try:
        gpus = plugin.discover()
        driver = plugin.attributes().get("nvidia.driver_version", "of unknown version")
    finally:
        plugin.close()
    if gpus:
        return DiscoveredDevices(gpus=gpus, words=f"{_counted(gpus)} through NVML (driver {driver})")
    demo = "using a demo cluster of two mock nodes with 8 H100 each"
    return DiscoveredDevices(gpus=(), words=f"no real GPUs: {plugin.diagnosis}; {demo}")


def _counted(gpus: tuple[Device, ...]) -> str:
    models = Counter(gpu.model for gpu in gpus)
    return ", ".join(f"{count} x {model}" for model, count in models.items())
