"""Mock accelerators: devices from a file, with readings that follow what their holders do."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aliquot.execution.devices.grant import device_order, held
from aliquot.execution.devices.mock_file import MockDescription, MockDevice, SlotFormat, read_mock_file
from aliquot.execution.devices.plugin import DeviceUse
from aliquot.execution.devices.visibility import family_of, visible_devices
from aliquot_schema.devices import Device, DeviceReading, Isolation, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import MILLI, SlotType

SHARE_QUANTUM: Final = 10
"""Milli: the step of `*.shares`."""

IDLE_C: Final = 30.0
IDLE_W: Final = 70.0
FULL_C: Final = 80.0
FULL_W: Final = 700.0


class MockPlugin:
    """The devices of one description, given or read from `{"file": PATH}`."""

    def __init__(self, config: MockDescription | Mapping[str, object]) -> None:
        """Read the description; later changes of the file are not seen.

        Raises:
            DeviceFileError: the file or the table cannot be used.
        """
        self._description = _description(config)
        self.kind = self._description.slot_name
        self._devices = _devices(self._description)

    @property
    def formats(self) -> Mapping[str, SlotFormat]:
        """How the slots are shown, by the part of their name after the dot."""
        return self._description.formats

    def discover(self) -> tuple[Device, ...]:
        """The devices of the description; they never change."""
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
        """What the devices would show: a function of `uses` alone. No process can be on a device that is not real."""
        return tuple(_reading(device, [use for use in uses if use.device_id == device.id]) for device in self._devices)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """The same variables as for real devices of this family."""
        family = family_of(self._description.device_plugin_name, self.kind)
        return visible_devices(family, tuple(held(spec, self._devices)))

    def close(self) -> None:
        """There is no driver."""


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
    """A holder keeps its share busy for the part of its life that it had a CPU; its memory fills up as it works."""
    load = sum(use.share_milli * min(1.0, use.cpu_s / use.alive_s) for use in uses if use.alive_s > 0)
    busy = min(1.0, load / device.budget)
    filled = sum(use.share_milli * (0.1 + 0.8 * use.cpu_s / (use.cpu_s + 1)) for use in uses)
    return DeviceReading(
        device_id=device.id,
        utilization_pct=round(100 * busy, 1),
        memory_used_bytes=int(min(1.0, filled / device.budget) * device.memory_bytes),
        temperature_c=round(IDLE_C + (FULL_C - IDLE_C) * busy, 1),
        power_w=round(IDLE_W + (FULL_W - IDLE_W) * busy, 1),
        processes=(),
    )


def _text(value: str | float | bool) -> str:
    """As TOML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
