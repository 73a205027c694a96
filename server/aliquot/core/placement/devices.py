"""The devices of agents, in the columns of the cluster's rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.models import is_of_model
from aliquot.core.placement.cluster import BoolArray, IntArray, NodeRow
from aliquot.core.placement.requests import WHOLE_MILLI
from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import MILLI, is_accelerator, scale_of

CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
MILLI_MAX: Final = 16 * WHOLE_MILLI
"""Scores know devices up to this size; of a larger one the rest is left to the allocation."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What never changes of one agent: its healthy accelerators, the last in natural order in column 0.

    So the first of equal columns is the last device, which is the one that the allocation takes.
    """

    layout: DeviceLayout
    accelerators: tuple[Device, ...]
    rivals: Mapping[DeviceId, tuple[DeviceId, ...]]

    @classmethod
    def of(cls, layout: DeviceLayout) -> "Columns":
        """The columns of an agent."""
        slots = [columns for slot, columns in sorted(layout.slots.items()) if is_accelerator(slot)]
        ids = dict.fromkeys(device_id for columns in slots for device_id in columns.ids)
        found = [layout.devices[device_id] for device_id in ids]
        if len(slots) > 1 and any(columns.ids != slots[0].ids for columns in slots):
            found.sort(key=lambda device: (natural_key(device.name), device.id))
        rivals = {
            device_id: others
            for columns in slots
            if columns.has_rivals
            for device_id, others in zip(columns.ids, columns.rivals, strict=True)
        }
        return cls(layout, tuple(reversed(found)), rivals)

    def free_milli(self, used: Mapping[DeviceId, int]) -> list[int]:
        """What is left of each accelerator; nothing while a slice of it, or its parent, is held."""
        free = [min(max(device.budget - used.get(device.id, 0), 0), MILLI_MAX) for device in self.accelerators]
        if self.rivals:
            for column, device in enumerate(self.accelerators):
                if any(used.get(rival) for rival in self.rivals.get(device.id, ())):
                    free[column] = 0
        return free

    def host_free(self, used: Mapping[DeviceId, int]) -> tuple[int, int]:
        """Milli-cores and memory that are left."""
        slots = self.layout.slots
        cpu, mem = (sum(slots[slot].free(used)) if slot in slots else 0 for slot in (CPU, MEM))
        return 1000 * cpu, mem

    def host_change(
        self, specs: Sequence[ResourceSpec], before: Mapping[DeviceId, int], now: Mapping[DeviceId, int]
    ) -> tuple[int, int] | None:
        """Milli-cores and memory that are gone since nothing but the devices of `specs` changed, as `row` counts them.

        None when only counting anew tells.
        """
        parts = []
        for slot, scale in ((CPU, 1000), (MEM, 1)):
            ids = dict.fromkeys(device_id for spec in specs for device_id in spec.get(slot, ()))
            if not ids:
                parts.append(0)
                continue
            offered = self.layout.slots.get(slot)
            if offered is None or offered.cost != 1 or offered.has_rivals or not ids.keys() <= offered.places.keys():
                return None
            gone = 0
            for device_id in ids:
                budget = offered.budgets[offered.places[device_id]]
                gone += min(now.get(device_id, 0), budget) - min(before.get(device_id, 0), budget)
            parts.append(scale * gone)
        return parts[0], parts[1]

    def row(self, name: str, used: Mapping[DeviceId, int]) -> NodeRow:
        """The agent as a row of the cluster."""
        cpu, mem = self.host_free(used)
        return NodeRow(
            name=name,
            cpu=cpu,
            mem=mem,
            devices=tuple(min(device.budget, MILLI_MAX) for device in self.accelerators),
            free_milli=tuple(self.free_milli(used)),
        )


@dataclass(frozen=True, slots=True)
class Offers:
    """Which devices offer a slot. Arrays [rows, D]."""

    has_slot: BoolArray
    quantum: IntArray
    is_plain: BoolArray
    """Whether it is a device of capacity 1 whose budget the slot draws on in milli."""


class DeviceTable:
    """The accelerators of all agents, row by row as in the cluster."""

    def __init__(self, rows: Sequence[Columns], *, width: int) -> None:
        self._rows = rows
        self._shape = (len(rows), width)
        self._offers: dict[SlotName, Offers] = {}
        self.size: Final = self._array(lambda device: device.budget)

    def offers(self, slot: SlotName) -> Offers:
        """Who offers a slot."""
        if slot not in self._offers:
            plain_cost = MILLI // scale_of(slot)
            cost = self._array(lambda device: device.costs.get(slot, 0))
            self._offers[slot] = Offers(
                has_slot=cost > 0,
                quantum=np.maximum(self._array(lambda device: device.quanta.get(slot, 1)), 1),
                is_plain=(cost == plain_cost) & (self.size == WHOLE_MILLI),
            )
        return self._offers[slot]

    def of_models(self, patterns: tuple[str, ...]) -> BoolArray:
        """[rows, D] devices whose model matches one of the patterns."""
        return self._array(lambda device: is_of_model(device.model, patterns)) > 0

    @cached_property
    def memory_bytes(self) -> IntArray:
        """[rows, D] memory of each device."""
        return self._array(lambda device: device.memory_bytes)

    def _array(self, value: Callable[[Device], int]) -> IntArray:
        array = np.zeros(self._shape, dtype=np.int64)
        for row, columns in enumerate(self._rows):
            if columns.accelerators:
                array[row, : len(columns.accelerators)] = [value(device) for device in columns.accelerators]
        return array
