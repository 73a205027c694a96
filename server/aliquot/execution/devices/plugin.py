"""Device plugin interface: the protocols of plugins, and the environment variables of granted devices.

Plugins are found by the entry point group `aliquot.accelerators`, in this package and in other distributions.
"""

import json
from collections.abc import Container, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from aliquot.errors import ConfigurationError
from aliquot_schema.ids import AgentId, DeviceId, NaturalKey, SlotName, natural_key
from aliquot_schema.resources.devices import Device, DeviceReading, ResourceSpec
from aliquot_schema.resources.slots import SlotType, format_milli, is_accelerator


class DeviceFileError(ConfigurationError):
    """Invalid device configuration; the message names the file, the key and the valid values."""


class DeviceUse(Struct, frozen=True, kw_only=True):
    """One kernel's use of one device; a plugin without sensors can derive its readings from it."""

    device_id: DeviceId
    share_milli: int
    """Thousandths of the device, 0..1000; above 1000 for a capacity over 1."""
    cpu_s: float
    """CPU time of the kernel's processes so far, seconds."""
    alive_s: float
    """Run time of the kernel so far, seconds."""


@runtime_checkable
class DevicePlugin(Protocol):
    """One kind of device on one node.

    The entry point names a callable that takes the plugin's part of the agent configuration (a TOML table as a
    mapping) and returns the plugin. It and `discover` raise `DeviceFileError` when the operator has to change the
    configuration. Methods are called from one thread at a time.
    """

    kind: str
    """`cuda`, `rocm`, `cpu`, ...: the prefix of its slots."""

    def discover(self) -> tuple[Device, ...]:
        """The devices present now, in natural order of their names; empty without hardware or driver.

        Raises:
            DeviceFileError: the configuration names a device that does not exist.
        """

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """All slots of this plugin, also while it has no devices."""

    def attributes(self) -> Mapping[str, str]:
        """Further facts for the agent's attributes, such as the driver version."""

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        """Measure every device now. A device that cannot be read is omitted."""

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """Environment variables for a kernel that holds `spec`.

        Also called when `spec` has none of this plugin's devices: the variables must then hide them all.
        """

    def close(self) -> None:
        """Release the driver."""


class DeviceGate(Struct, frozen=True, kw_only=True):
    """Access rule for the character devices `major`:`first`..`last`: a kernel may open only the allowed minors."""

    major: int
    first: int
    last: int
    allowed: tuple[int, ...]
    """Minors, ascending."""


@runtime_checkable
class GatingPlugin(DevicePlugin, Protocol):
    """A plugin with one device file per device, so that access to the other devices can be denied."""

    def gate(self, spec: ResourceSpec) -> DeviceGate | None:
        """Access rule for a kernel that holds `spec`; None while devices and device files do not match one to one."""


@runtime_checkable
class DriverPlugin(DevicePlugin, Protocol):
    """A plugin that discovers devices through a driver, independent of configuration.

    A held device that such a plugin stops reporting was lost; with other plugins it was removed from the configuration.
    """

    @property
    def has_driver(self) -> bool:
        """Whether the driver answered the last `discover`."""


@runtime_checkable
class PartitioningPlugin(DevicePlugin, Protocol):
    """A plugin with its own rule for dividing devices among the agents of a node."""

    def partition(self, devices: Sequence[Device], *, agents: Sequence[AgentId]) -> Sequence[Sequence[Device]]:
        """Divide devices of one kind, in mode `auto-split`; see `core.allocation.node_partition.Partitioner`."""


SHARES: Final = "ALIQUOT_GPU_SHARES"
MEMORY: Final = "ALIQUOT_GPU_MEMORY_BYTES"
IDS: Final = "ALIQUOT_DEVICE_IDS"
NAMES: Final = "ALIQUOT_DEVICE_NAMES"


def device_order(device: Device) -> tuple[NaturalKey, str]:
    """Sort key of devices: natural order of names, then id."""
    return natural_key(device.name), device.id


def holds_any(spec: ResourceSpec, ids: Container[DeviceId]) -> bool:
    """Whether the spec contains one of these devices."""
    return any(id in ids for amounts in spec.values() for id in amounts)


def held(spec: ResourceSpec, devices: Sequence[Device]) -> dict[DeviceId, int]:
    """Budget units that the spec holds of each device, all > 0, in natural order of the devices' names."""
    granted = {id for amounts in spec.values() for id in amounts}
    amounts = [(device, _units(spec, device)) for device in devices if device.id in granted]
    return {device.id: units for device, units in sorted(amounts, key=lambda one: device_order(one[0])) if units > 0}


def grant_variables(spec: ResourceSpec, devices: Sequence[Device]) -> dict[str, str]:
    """Environment variables of each granted accelerator of any kind: ids and names, shares and memory.

    `ALIQUOT_DEVICE_IDS` and `ALIQUOT_DEVICE_NAMES` are separated by commas. The others are JSON objects keyed by device
    id: `ALIQUOT_GPU_SHARES` has decimal strings as in `gpu_alloc_map` (`{"<id>": "0.60"}`), and
    `ALIQUOT_GPU_MEMORY_BYTES` the same share of the device's memory in bytes, rounded down. Without an accelerator
    they are `{}`, and the lists are empty.
    """
    accelerators = {device.id: device for device in devices if any(map(is_accelerator, device.costs))}
    units = held(spec, tuple(accelerators.values()))
    memory = {id: accelerators[id].memory_bytes * taken // accelerators[id].budget for id, taken in units.items()}
    return {
        IDS: ",".join(units),
        NAMES: ",".join(accelerators[id].name for id in units),
        SHARES: json.dumps({id: format_milli(taken) for id, taken in units.items()}),
        MEMORY: json.dumps(memory),
    }


def _units(spec: ResourceSpec, device: Device) -> int:
    return sum(amounts.get(device.id, 0) * device.costs.get(slot, 0) for slot, amounts in spec.items())


class VisibleBy(Struct, frozen=True, kw_only=True):
    """The variable that tells a runtime its devices."""

    variable: str
    by_number: bool = False
    """Whether it lists numbers, those in the devices' names (`tpu0`: 0), instead of ids."""


FAMILIES: Final[Mapping[str, VisibleBy]] = {
    "cuda": VisibleBy(variable="CUDA_VISIBLE_DEVICES"),
    "rocm": VisibleBy(variable="ROCR_VISIBLE_DEVICES"),
    "tpu": VisibleBy(variable="TPU_VISIBLE_CHIPS", by_number=True),
    "xpu": VisibleBy(variable="ZE_AFFINITY_MASK", by_number=True),
    "hpu": VisibleBy(variable="HABANA_VISIBLE_MODULES", by_number=True),
    "npu": VisibleBy(variable="ASCEND_RT_VISIBLE_DEVICES", by_number=True),
    "neuron": VisibleBy(variable="NEURON_RT_VISIBLE_CORES", by_number=True),
}
"""Known runtimes: NVIDIA, AMD, Google TPU, Intel GPU, Intel Gaudi, Huawei Ascend, AWS Neuron."""


def visible_devices(family: str | None, devices: Sequence[Device]) -> dict[str, str]:
    """Environment variables that make exactly these devices visible to a job, in this order; no devices hide all.

    CUDA accepts UUIDs, also of MIG slices, and numbers devices in the order of the list. An empty CUDA variable hides
    every device; `-1` would too, but reads like a device. The container toolkit spells an empty list `void`. An
    unknown family has no variable of its own; its jobs read `ALIQUOT_DEVICE_IDS` or `ALIQUOT_DEVICE_NAMES`.

    Source: CUDA C++ Programming Guide, environment variables; NVIDIA Container Toolkit, user guide.
    """
    if family is None:
        return {}
    visible = FAMILIES[family]
    listed = ",".join(_number(device) if visible.by_number else device.id for device in devices)
    if family == "cuda":
        more = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": listed or "void"}
        return {visible.variable: listed} | more
    return {visible.variable: listed}


def granted(spec: ResourceSpec, devices: Sequence[Device]) -> tuple[Device, ...]:
    """The devices of which the spec holds a part, in natural order of their names."""
    known = {device.id: device for device in devices}
    return tuple(known[id] for id in held(spec, devices))


def family_of(*names: str) -> str | None:
    """Runtime family of the first name that contains one: `CUDADevice` -> cuda."""
    return next((family for name in names for family in FAMILIES if family in name.casefold()), None)


def _number(device: Device) -> str:
    """The number at the end of a device's name; its id if there is none."""
    digits = device.name[len(device.name.rstrip("0123456789")) :]
    return digits or device.id
