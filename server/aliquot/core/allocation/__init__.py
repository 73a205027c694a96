"""What one agent can give: exact devices for a request, or a typed refusal.

`DeviceMap` is the entry; `occupancy_of` adds up what is held, `gpu_alloc_map` shows it to people.
"""

from aliquot.core.allocation.alloc_map import gpu_alloc_json, gpu_alloc_map
from aliquot.core.allocation.device_map import DeviceMap, FreeAmount, Refusal
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import Occupancy, budget_cost, occupancy_of
from aliquot.core.allocation.options import DEFAULT_OPTIONS, AllocationOptions, NumaPolicy, Strategy

__all__ = [
    "DEFAULT_OPTIONS",
    "AllocationOptions",
    "DeviceLayout",
    "DeviceMap",
    "FreeAmount",
    "NumaPolicy",
    "Occupancy",
    "Refusal",
    "Strategy",
    "budget_cost",
    "gpu_alloc_json",
    "gpu_alloc_map",
    "occupancy_of",
]
