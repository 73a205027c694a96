"""What a kernel is told about the devices that it was given."""

import json
from collections.abc import Container, Sequence
from typing import Final

from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId
from aliquot_schema.natural_order import NaturalKey, natural_key
from aliquot_schema.slots import format_milli, is_accelerator

SHARES: Final = "ALIQUOT_GPU_SHARES"
MEMORY: Final = "ALIQUOT_GPU_MEMORY_BYTES"


def device_order(device: Device) -> tuple[NaturalKey, str]:
    """The sort key of devices: natural order of names, ids for a tie."""
    return natural_key(device.name), device.id


def holds_any(spec: ResourceSpec, ids: Container[DeviceId]) -> bool:
    """Whether the spec has an amount of one of these devices."""
    return any(id in ids for amounts in spec.values() for id in amounts)


def held(spec: ResourceSpec, devices: Sequence[Device]) -> dict[DeviceId, int]:
    """Budget units that the spec takes of each device, idle ones left out, in natural order of the devices' names."""
    given = {id for amounts in spec.values() for id in amounts}
    taken = [(device, _units(spec, device)) for device in devices if device.id in given]
    return {device.id: units for device, units in sorted(taken, key=lambda one: device_order(one[0])) if units > 0}


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
