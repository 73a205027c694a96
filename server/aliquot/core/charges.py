"""Charges: what holding devices costs in fair share and in GPU-hours, in milli of a device."""

from collections.abc import Mapping
from typing import Final

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.policies import Charges
from aliquot_schema.slots import MILLI, is_accelerator

CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
GIB: Final = 2**30


def rate_milli(spec: ResourceSpec, *, devices: Mapping[DeviceId, Device], charges: Charges) -> int:
    """What one kernel costs for as long as it holds this.

    Accelerators by the part of their budget that is held x the price of their model, cores and GiB by theirs. A part
    of a milli counts as one: what is held and has a price is never free.

    Args:
        devices: those of the kernel's agent; one that is missing costs what an accelerator of no known model does.
    """
    held = occupancy_on([{slot: spec[slot] for slot in spec if is_accelerator(slot)}], devices)
    accelerators = sum(amount * _price(devices.get(device_id), charges) for device_id, amount in held.items())
    host = sum(spec.get(CPU, {}).values()) * charges.cpu_milli * GIB
    host += sum(spec.get(MEM, {}).values()) * charges.mem_gib_milli
    return -(-(accelerators * GIB + host * MILLI) // (MILLI * GIB))


def _price(device: Device | None, charges: Charges) -> int:
    """Per whole device."""
    return MILLI if device is None else charges.accelerator_milli.get(device.model, MILLI)
