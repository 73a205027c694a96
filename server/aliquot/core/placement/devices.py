"""The devices of agents, in the columns of the cluster's rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.models import is_of_model
from aliquot.core.allocation.occupancy import Occupancy
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
    budgets: tuple[tuple[DeviceId, int], ...]
    """The ids and budgets of those."""
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
        found.reverse()
        return cls(layout, tuple(found), tuple((device.id, device.budget) for device in found), rivals)

    def free_milli(self, used: Mapping[DeviceId, int]) -> list[int]:
        """What is left of each accelerator; nothing while a slice of it, or its parent, is held."""
        free = [budget - used.get(device_id, 0) for device_id, budget in self.budgets]
        if free and (min(free) < 0 or max(free) > MILLI_MAX):
            free = [min(max(milli, 0), MILLI_MAX) for milli in free]
        if self.rivals:
            for column, device in enumerate(self.accelerators):
                if any(used.get(rival) for rival in self.rivals.get(device.id, ())):
                    free[column] = 0
        return free

    def host_free(self, used: Mapping[DeviceId, int]) -> tuple[int, int]:
        """Milli-cores and memory that are left."""
        slots = self.layout.slots
        cpu, mem = (slots[slot].free_sum(used) if slot in slots else 0 for slot in (CPU, MEM))
        return 1000 * cpu, mem

    def host_change(self, specs: Sequence[ResourceSpec], before: Occupancy, now: Occupancy) -> tuple[int, int] | None:
        """Milli-cores and memory that are gone since nothing but the devices of `specs` changed, as `row` counts them.

        None when only counting anew tells.
        """
        cpu, mem = (
            self._gone(slot, [spec[slot] for spec in specs if slot in spec], before, now) for slot in (CPU, MEM)
        )
        return None if cpu is None or mem is None else (1000 * cpu, mem)

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

    def _gone(
        self, slot: SlotName, given: Sequence[Mapping[DeviceId, int]], before: Occupancy, now: Occupancy
    ) -> int | None:
        """Of one slot, in base units."""
        if not given:
            return 0
        offered = self.layout.slots.get(slot)
        ids = {device_id: None for amounts in given for device_id in amounts}.keys()
        if offered is None or offered.cost != 1 or offered.has_rivals or not ids <= offered.places.keys():
            return None
        if offered.is_units and not any(map(before.get, ids)):
            return len(ids)
        gone = 0
        for device_id in ids:
            budget = offered.budgets[offered.places[device_id]]
            gone += min(now.get(device_id, 0), budget) - min(before.get(device_id, 0), budget)
        return gone


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
