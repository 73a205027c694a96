"""What a kernel is told about the devices that it was given."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import format_milli, is_accelerator

SHARES: Final = "ALIQUOT_GPU_SHARES"
MEMORY: Final = "ALIQUOT_GPU_MEMORY_BYTES"


def holds_any(spec: ResourceSpec, ids: Iterable[DeviceId]) -> bool:
    """Whether the spec has an amount of one of these devices."""
    return any(amounts.get(id, 0) > 0 for amounts in spec.values() for id in ids)


def held(spec: ResourceSpec, devices: Sequence[Device]) -> dict[DeviceId, int]:
    """Budget units that the spec takes of each device, idle ones left out, in natural order of the devices' names."""
    ordered = sorted(devices, key=lambda device: (natural_key(device.name), natural_key(device.id)))
    units = {device.id: _units(spec, device) for device in ordered}
    return {id: taken for id, taken in units.items() if taken > 0}


def grant_variables(spec: ResourceSpec, devices: Sequence[Device]) -> dict[str, str]:
    """Shares and memory of each accelerator given, as JSON objects by device id.

    `ALIQUOT_GPU_SHARES` has decimal texts as in `gpu_alloc_map` (`{"<id>": "0.60"}`), `ALIQUOT_GPU_MEMORY_BYTES` the
    same part of the device's memory, rounded down. Without an accelerator both are `{}`.
    """
    accelerators = {device.id: device for device in devices if any(map(is_accelerator, device.costs))}
    units = held(spec, tuple(accelerators.values()))
    memory = {id: accelerators[id].memory_bytes * taken // accelerators[id].budget for id, taken in units.items()}
    return {SHARES: json.dumps({id: format_milli(taken) for id, taken in units.items()}), MEMORY: json.dumps(memory)}


def _units(spec: ResourceSpec, device: Device) -> int:
    return sum(amounts.get(device.id, 0) * device.costs.get(slot, 0) for slot, amounts in spec.items())
