"""Mock accelerators: devices described by a TOML file, with readings derived from their holders' CPU use."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from zlib import crc32

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from aliquot.execution.devices.plugin import (
    DeviceFileError,
    DeviceUse,
    device_order,
    family_of,
    granted,
    visible_devices,
)
from aliquot.execution.devices.tables import Size, Table
from aliquot.service.setting_errors import identifier
from aliquot_schema.cluster.agents import ATTRIBUTES_MAX
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import (
    DEVICES_MAX,
    LINKS_MAX,
    MEMORY_BYTES_MAX,
    NUMA_NODE_MAX,
    PROCESSORS_MAX,
    Device,
    DeviceReading,
    Isolation,
    ResourceSpec,
)
from aliquot_schema.resources.slots import MILLI, SlotType

_HOST_SLOTS: Final = ("cpu", "mem")
_Id = Annotated[str, identifier(characters_max=96)]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=100)]
_PART: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)


class MockDevice(Table):
    """One device of the file; its position in the file is its index."""

    mother_uuid: _Id
    """The device's id; for a MIG slice, the id of the sliced device."""
    model_name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    numa_node: int | None = Field(default=None, ge=-1, le=NUMA_NODE_MAX)
    """-1 (the kernel's value) or no key = unknown."""
    subproc_count: int = Field(default=0, ge=0, le=PROCESSORS_MAX)
    """Streaming multiprocessors; 0 = unknown."""
    memory_size: Size = Field(gt=0, le=MEMORY_BYTES_MAX)
    is_mig_device: bool = False
    linked_to: list[_Id] = Field(default_factory=list, max_length=LINKS_MAX)
    """Ids of devices with a direct link to this one, like NVLink."""


class NumberFormat(Table):
    """Number format of a slot's amounts for display."""

    binary: bool = False
    round_length: int = Field(default=0, ge=0, le=9)


class SlotFormat(Table):
    """Display format of a slot."""

    display_unit: _Label
    human_readable_name: _Label
    number_format: NumberFormat = NumberFormat()


class MockDescription(Table):
    """The contents of a mock device file."""

    slot_name: str = "cuda"
    """Prefix of slot names and device names."""
    device_plugin_name: Annotated[str, StringConstraints(max_length=100)] = ""
    """Imitated plugin; empty = `CUDADevice` for `cuda`, `ROCMDevice` for `rocm`, and so on.
    If the name contains one of `FAMILIES`, jobs get that runtime's environment variables."""
    devices: Annotated[list[MockDevice], Field(min_length=1, max_length=DEVICES_MAX)]
    attributes: dict[_Label, str | int | float | bool] = Field(default_factory=dict, max_length=ATTRIBUTES_MAX // 2)
    formats: dict[str, SlotFormat] = Field(default_factory=dict)
    """Slot name after the dot (`device`, `shares`) -> display format."""

    @field_validator("slot_name")
    @classmethod
    def _free_slot_name(cls, name: str) -> str:
        if name in _HOST_SLOTS or not _PART.fullmatch(name):
            fields = {"name": repr(name), "taken": " or ".join(_HOST_SLOTS)}
            raise PydanticCustomError(
                "slot_name", "{name} is not a slot name; use a-z, 0-9, - and _, not {taken}, as in 'cuda'", fields
            )
        return name

    @field_validator("devices")
    @classmethod
    def _distinct(cls, devices: list[MockDevice]) -> list[MockDevice]:
        whole = [device.mother_uuid for device in devices if not device.is_mig_device]
        twice = sorted({uuid for uuid in whole if whole.count(uuid) > 1})
        if twice:
            fields = {"uuids": ", ".join(twice)}
            raise PydanticCustomError("twice", "duplicate mother_uuid without is_mig_device: {uuids}", fields)
        return devices


def read_mock_file(path: Path) -> MockDescription:
    """Read and validate a mock device file.

    Raises:
        DeviceFileError: the file cannot be read, is not TOML, or has invalid values.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # invalid TOML or UTF-8, or a number with more digits than Python accepts
        raise DeviceFileError(f"{path}: not a TOML file: {error}") from None
    except RecursionError:
        raise DeviceFileError(f"{path}: nested too deeply; a list of devices is two levels deep") from None
    return MockDescription.checked(values, source=str(path))


SHARE_QUANTUM: Final = 10
"""Granularity of `*.shares`, thousandths of a device."""

IDLE_C: Final = 30.0
IDLE_W: Final = 70.0
FULL_C: Final = 80.0
FULL_W: Final = 700.0


WORKING_CPU: Final = 0.001
"""Synthetic readings: a holder that used less than this part of a core since its start is idle."""
LEVEL_PCT: Final = (60.0, 97.0)
"""Lowest and highest utilization of a holder that works, within its share."""
WAVES_S: Final = (1_900.0, 37.0)
"""Periods of the two waves that the utilization is the sum of, 4 to 1."""
MEMORY_FIRST: Final = 0.3
MEMORY_STEP: Final = 0.12
MEMORY_STEPS: Final = 6
MEMORY_STEP_S: Final = 420.0
"""A holder fills `MEMORY_FIRST` of its share's memory and some steps, one more after each period; then it begins anew.
"""


def synthetic_phase(device_id: DeviceId) -> float:
    """Where the waves of a device begin, 0 to 1."""
    return crc32(device_id.encode()) % 64 / 64


def synthetic_pct(alive_s: Any, *, phase: float) -> Any:
    """Synthetic utilization of a holder that works, within the bounds of `LEVEL_PCT`.

    Args:
        alive_s: seconds since its start, a number or an array of them.
        phase: where its waves begin, 0 to 1.
    """
    low, high = LEVEL_PCT
    slow, quick = (abs(2 * ((phase + alive_s / period_s) % 1) - 1) for period_s in WAVES_S)
    return low + (high - low) * (0.8 * slow + 0.2 * quick)


def synthetic_memory(alive_s: Any, *, phase: float) -> Any:
    """Part of its share's memory that a holder that works has filled; arguments as of `synthetic_pct`."""
    return MEMORY_FIRST + MEMORY_STEP * ((phase * MEMORY_STEPS // 1 + alive_s // MEMORY_STEP_S) % MEMORY_STEPS)


class MockPlugin:
    """The devices of one description: an object, a table, or read from `{"file": PATH}`."""

    def __init__(self, config: MockDescription | Mapping[str, object], *, is_synthetic: bool = False) -> None:
        """Read the description once; later changes of the file have no effect.

        Args:
            is_synthetic: whether readings show training, not the holders' CPU use: each holder that uses the CPU at all
                is shown at 60 to 97 % of its share with memory in steps, and one that does not as idle.
        Raises:
            DeviceFileError: the file or the table is invalid.
        """
        self._description = _description(config)
        self.kind = self._description.slot_name
        self._devices = _devices(self._description)
        self._reading = _synthetic_reading if is_synthetic else _reading

    @property
    def formats(self) -> Mapping[str, SlotFormat]:
        """Display formats of the slots, by the part of their name after the dot."""
        return self._description.formats

    def discover(self) -> tuple[Device, ...]:
        """The devices of the description; constant."""
        return self._devices

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """`<slot_name>.device` and `<slot_name>.shares`, both counted."""
        return dict.fromkeys(_slots(self.kind), SlotType.COUNT)

    def attributes(self) -> Mapping[str, str]:
        """The file's attributes, and its formats as `formats.<subtype>.<key>`."""
        own = {name: _text(value) for name, value in self._description.attributes.items()}
        for subtype, shown in self.formats.items():
            own[f"formats.{subtype}.display_unit"] = shown.display_unit
            own[f"formats.{subtype}.human_readable_name"] = shown.human_readable_name
            own[f"formats.{subtype}.number_format.binary"] = _text(shown.number_format.binary)
            own[f"formats.{subtype}.number_format.round_length"] = _text(shown.number_format.round_length)
        return own

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        """Simulated readings, a function of `uses` only; without processes, because the devices are not real."""
        by_device = ((device, [use for use in uses if use.device_id == device.id]) for device in self._devices)
        return tuple(self._reading(device, held) for device, held in by_device)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """The same environment variables as for real devices of this family."""
        family = family_of(self._description.device_plugin_name or f"{self.kind.upper()}Device", self.kind)
        return visible_devices(family, granted(spec, self._devices))

    def close(self) -> None:
        """Nothing to release."""


def _description(config: MockDescription | Mapping[str, object]) -> MockDescription:
    if isinstance(config, MockDescription):
        return config
    file = config.get("file")
    if isinstance(file, str | Path) and len(config) == 1:
        return read_mock_file(Path(file))
    return MockDescription.checked(config, source="mock accelerators")


def _slots(kind: str) -> tuple[SlotName, SlotName]:
    return SlotName(f"{kind}.device"), SlotName(f"{kind}.shares")


def _devices(description: MockDescription) -> tuple[Device, ...]:
    slices: dict[str, int] = {}
    found: list[Device] = []
    for index, entry in enumerate(description.devices):
        number = None
        if entry.is_mig_device:
            number = slices.get(entry.mother_uuid, 0)
            slices[entry.mother_uuid] = number + 1
        found.append(_device(entry, kind=description.slot_name, index=index, slice_number=number))
    return tuple(sorted(found, key=device_order))


def _device(entry: MockDevice, *, kind: str, index: int, slice_number: int | None) -> Device:
    whole, shares = _slots(kind)
    mother = DeviceId(entry.mother_uuid)
    is_slice = slice_number is not None
    return Device(
        id=DeviceId(f"{mother}/{slice_number}") if is_slice else mother,
        name=f"{kind}{index}",
        kind=kind,
        model=entry.model_name,
        budget=MILLI,
        costs={whole: MILLI, shares: 1},
        quanta={shares: SHARE_QUANTUM},
        memory_bytes=entry.memory_size,
        numa_node=None if entry.numa_node == -1 else entry.numa_node,
        parent=mother if is_slice else None,
        linked_to=() if is_slice else tuple(map(DeviceId, entry.linked_to)),
        isolation=Isolation.MIG if is_slice else Isolation.NONE,
        processors=entry.subproc_count,
    )


def _reading(device: Device, uses: Sequence[DeviceUse]) -> DeviceReading:
    """Utilisation: each holder's share x CPU time / run time. Memory: 10 to 90 % of the share, growing with it."""
    load = sum(use.share_milli * min(1.0, use.cpu_s / use.alive_s) for use in uses if use.alive_s > 0)
    filled = sum(use.share_milli * (0.1 + 0.8 * use.cpu_s / (use.cpu_s + 1)) for use in uses)
    return _read(device, busy=load / device.budget, filled=filled / device.budget)


def _synthetic_reading(device: Device, uses: Sequence[DeviceUse]) -> DeviceReading:
    load = filled = 0.0
    for use in uses:
        part = use.share_milli / MILLI
        if use.cpu_s < WORKING_CPU * use.alive_s or not use.cpu_s:
            filled += part * MEMORY_FIRST
        else:
            phase = synthetic_phase(device.id)
            load += part * synthetic_pct(use.alive_s, phase=phase) / 100
            filled += part * synthetic_memory(use.alive_s, phase=phase)
    return _read(device, busy=load, filled=filled)


def _read(device: Device, *, busy: float, filled: float) -> DeviceReading:
    """A reading of a device of which parts are busy and filled, each 0 to 1 and more."""
    busy = min(1.0, busy)
    return DeviceReading(
        device_id=device.id,
        utilization_pct=round(100 * busy, 1),
        memory_used_bytes=int(min(1.0, filled) * device.memory_bytes),
        temperature_c=round(IDLE_C + (FULL_C - IDLE_C) * busy, 1),
        power_w=round(IDLE_W + (FULL_W - IDLE_W) * busy, 1),
        processes=(),
    )


def _text(value: str | float | bool) -> str:
    """The value in TOML notation."""
    return str(value).lower() if isinstance(value, bool) else str(value)
