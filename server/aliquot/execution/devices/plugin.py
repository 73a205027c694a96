"""What an agent asks of a device plugin. Found by entry point `aliquot.accelerators`, in the tree and out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from aliquot.errors import ConfigurationError
from aliquot_schema.devices import Device, DeviceReading, ResourceSpec
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.slots import SlotType


class DeviceFileError(ConfigurationError):
    """A description of devices cannot be used; the message names the file and the key, and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What the agent knows of one holder of a device; a plugin without sensors of its own can answer from it."""

    device_id: DeviceId
    share_milli: int
    """Of the whole device, 0..1000 and above for a capacity over 1."""
    cpu_s: float
    """CPU time of the holder's processes so far, seconds."""
    alive_s: float
    """How long the holder has run, seconds."""


@runtime_checkable
class DevicePlugin(Protocol):
    """One kind of device on one node. Made with the part of the agent's configuration that is meant for it.

    The entry point names a callable that takes this part, a mapping as TOML gives it, and returns the plugin. It and
    `discover` raise `DeviceFileError` when the operator has to change something. Calls come from one thread at a time.
    """

    kind: str
    """`cuda`, `rocm`, `cpu`, ...: the prefix of its slots."""

    def discover(self) -> tuple[Device, ...]:
        """The devices there are now, in natural order of their names. No hardware or no driver: an empty tuple.

        Raises:
            DeviceFileError: a configuration that names what does not exist.
        """

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """The slots this plugin knows, devices or not."""

    def attributes(self) -> Mapping[str, str]:
        """What is worth knowing besides: driver version and the like."""

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        """Measure every device now. A device that cannot be asked is left out."""

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """Variables for a kernel that was given `spec`; also called when none of this plugin's devices is in it, so
        that the kernel sees none."""

    def close(self) -> None:
        """Let go of the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGate:
    """Of the character devices of one major with a minor from `first` to `last`, what a kernel may open."""

    major: int
    first: int
    last: int
    allowed: tuple[int, ...]
    """Minors, ascending."""


@runtime_checkable
class GatingPlugin(DevicePlugin, Protocol):
    """A plugin whose devices are told apart by their files, so that the kernel can keep a job from the others."""

    def gate(self, spec: ResourceSpec) -> DeviceGate | None:
        """What a kernel that was given `spec` may open; None while the devices here cannot be told apart so."""


@runtime_checkable
class PartitioningPlugin(DevicePlugin, Protocol):
    """A plugin that knows better than the usual way how its devices are divided among the agents of a node."""

    def partition(self, devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        """Divide its devices of one kind, in mode `auto-split`; see `core.allocation.partition.Partitioner`."""
