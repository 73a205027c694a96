"""The map of who holds how much of each accelerator, as people and programs read it."""

import json
from collections.abc import Iterable, Mapping

from aliquot.core.allocation.occupancy import occupancy_of
from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import format_milli, is_accelerator


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
