"""Allocation: exact devices of one agent for a request, or a typed refusal.

`DeviceMap` is the entry; `occupancy_of` adds up what is held, `gpu_alloc_map` is the form for people.
"""

from aliquot.core.allocation.device_map import DeviceMap, FreeAmount, Refusal
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import Occupancy, budget_cost, gpu_alloc_json, gpu_alloc_map, occupancy_of
from aliquot.core.allocation.options import DEFAULT_OPTIONS, AllocationOptions, NumaPolicy, ShareStrategy

__all__ = [
    "DEFAULT_OPTIONS",
    "AllocationOptions",
    "DeviceLayout",
    "DeviceMap",
    "FreeAmount",
    "NumaPolicy",
    "Occupancy",
    "Refusal",
    "ShareStrategy",
    "budget_cost",
    "gpu_alloc_json",
    "gpu_alloc_map",
    "occupancy_of",
]
