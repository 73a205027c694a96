"""How much of each device is held: a sum of resource specs, in budget units.

Occupancy is kept by device, not by slot, so that whole devices and shares exclude each other and a device stays held
when its slot is renamed.
"""

from collections.abc import Iterable, Mapping

from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import MILLI, is_accelerator, scale_of

Occupancy = Mapping[DeviceId, int]
"""Budget units held, by device; devices that nobody holds are missing."""


def budget_cost(slot: SlotName, *, device: Device | None) -> int:
    """Budget units that one base unit of a slot takes.

    A slot that the device does not offer (any more), or a device that is not known (any more), costs what the scale
    of the slot says: an accelerator's budget is in milli, so a milli of shares is 1 and one whole unit 1000; the
    host's own slots are 1.
    """
    cost = device.costs.get(slot) if device else None
    if cost:
        return cost
    return MILLI // scale_of(slot) if is_accelerator(slot) else 1


def occupancy_of(specs: Iterable[ResourceSpec], devices: Iterable[Device]) -> dict[DeviceId, int]:
    """Sum what the specs hold; devices that are not in `devices` are counted too."""
    return occupancy_on(specs, {device.id: device for device in devices})


def occupancy_on(specs: Iterable[ResourceSpec], devices: Mapping[DeviceId, Device]) -> dict[DeviceId, int]:
    """`occupancy_of`, for devices that are at hand by id."""
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
    """Difference of two occupancies; it is a fault to take away what is not there."""
    total = dict(used)
    for device_id, amount in less.items():
        rest = total.get(device_id, 0) - amount
        assert rest >= 0, f"{device_id} would be held by {rest}"
        total[device_id] = rest
        if not rest:
            del total[device_id]
    return total
