"""Occupancy: how much of each device is held, in budget units.

It is counted by device, not by slot, so that whole devices and shares exclude each other and a device stays held when
its slot is renamed. `gpu_alloc_map` is its form for people and programs.
"""

import json
from collections.abc import Iterable, Mapping

from aliquot_schema.ids import DeviceId, SlotName, natural_key
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.slots import MILLI, format_milli, is_accelerator, scale_of

Occupancy = Mapping[DeviceId, int]
"""Budget units held, by device; idle devices are missing."""


def budget_cost(slot: SlotName, *, device: Device | None) -> int:
    """Budget units that one base unit of a slot takes.

    For an unknown device, or a slot that the device does not offer, the scale of the slot decides: an accelerator's
    budget is in milli, so a milli of shares costs 1 and a whole unit 1000; host slots cost 1.
    """
    cost = device.costs.get(slot) if device else None
    if cost:
        return cost
    return MILLI // scale_of(slot) if is_accelerator(slot) else 1


def occupancy_of(specs: Iterable[ResourceSpec], devices: Iterable[Device]) -> dict[DeviceId, int]:
    """Sum of specs; devices that are not in `devices` count too."""
    return occupancy_on(specs, {device.id: device for device in devices})


def occupancy_on(specs: Iterable[ResourceSpec], devices: Mapping[DeviceId, Device]) -> dict[DeviceId, int]:
    """`occupancy_of`, with the devices by id."""
    held: dict[DeviceId, int] = {}
    for spec in specs:
        for slot, amounts in spec.items():
            for device_id, amount in amounts.items():
                device = devices.get(device_id)
                cost = (device.costs.get(slot) if device is not None else None) or budget_cost(slot, device=device)
                held[device_id] = held.get(device_id, 0) + amount * cost
    return held


def added(used: Occupancy, more: Occupancy) -> dict[DeviceId, int]:
    """Sum of two occupancies."""
    total = dict(used)
    for device_id, amount in more.items():
        total[device_id] = total.get(device_id, 0) + amount
    return total


def removed(used: Occupancy, less: Occupancy) -> dict[DeviceId, int]:
    """Difference of two occupancies; `less` must be contained in `used`."""
    total = dict(used)
    for device_id, amount in less.items():
        rest = total.get(device_id, 0) - amount
        assert rest >= 0, f"{device_id} would be held by {rest}"
        total[device_id] = rest
        if not rest:
            del total[device_id]
    return total


def larger_of(held: Occupancy, other: Occupancy) -> dict[DeviceId, int]:
    """Per device, the larger of the two amounts."""
    larger = dict(held)
    for device_id, amount in other.items():
        if amount > larger.get(device_id, 0):
            larger[device_id] = amount
    return larger


def gpu_alloc_map(specs: Iterable[ResourceSpec], devices: Iterable[Device]) -> dict[DeviceId, int]:
    """Milli shares held of every accelerator, idle ones too, in natural order of the ids.

    A whole device of capacity 1 is 1000. A device that is held but no longer listed stays in the map.
    """
    devices = [device for device in devices if any(is_accelerator(slot) for slot in device.costs)]
    accelerators = [{slot: amounts for slot, amounts in spec.items() if is_accelerator(slot)} for spec in specs]
    held = {device.id: 0 for device in devices} | occupancy_of(accelerators, devices)
    return {device_id: held[device_id] for device_id in sorted(held, key=natural_key)}


def gpu_alloc_json(alloc_map: Mapping[DeviceId, int]) -> str:
    """The map as JSON text: `{"<device id>": "0.80", ...}`, amounts with at least two places."""
    return json.dumps({device_id: format_milli(milli) for device_id, milli in alloc_map.items()})
