"""Cluster arrays: free amounts with one row per agent and one column per device, and a clock of changes.

Rows are in a fixed pseudo-random order, see `shuffle_key`. Amounts: CPU in milli-cores, devices in milli.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from hashlib import blake2b
from operator import gt
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.allocation.options import is_of_model
from aliquot_schema.bookings import BookedDevice
from aliquot_schema.ids import DeviceId, NodeId, SlotName, natural_key
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.slots import MILLI, is_accelerator, scale_of

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
CPU_COLUMN: Final = 0
MEM_COLUMN: Final = 1
HOST_COLUMNS: Final = 2
"""Columns before the devices."""
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
WHOLE_MILLI: Final = 1000
"""One whole device of capacity 1."""
MILLI_MAX: Final = 16 * WHOLE_MILLI
"""Scores handle devices up to this size; the rest of a larger one is left to the allocation."""


class NodeRow(Struct, frozen=True, kw_only=True):
    """Initial contents of a row."""

    name: str
    cpu: int
    """Milli-cores free."""
    mem: int
    devices: tuple[int, ...]
    """The size of each accelerator, in milli."""
    free_milli: tuple[int, ...] | None = None
    """Free part of each accelerator; None = all of it."""


class ClusterArrays:
    """Free amounts by row. Change them through `set_row`, `shrink_row`, `take` and `release` alone."""

    def __init__(self, nodes: Sequence[NodeRow]) -> None:
        self.nodes: Final = tuple(sorted(nodes, key=lambda node: (shuffle_key(node.name), node.name)))
        width = max((len(node.devices) for node in self.nodes), default=0)
        self.free = np.zeros((len(self.nodes), HOST_COLUMNS + max(width, 1)), dtype=np.int64)
        """[rows, 2 + D] CPU, memory and devices; see the properties."""
        self.dev_size: Final = np.zeros((len(self.nodes), max(width, 1)), dtype=np.int64)
        """Milli; 0 where a row has no such device."""
        for row, node in enumerate(self.nodes):
            devices = node.devices if node.free_milli is None else node.free_milli
            self.dev_size[row, : len(node.devices)] = node.devices
            self.free[row, : HOST_COLUMNS + len(devices)] = (node.cpu, node.mem, *devices)
        self.name_rank: Final = _ranks([node.name for node in self.nodes])
        """[rows] rank in the natural order of the names."""
        self.changed_at = np.zeros(len(self.nodes), dtype=np.int64)
        """[rows] the clock at the last change of each row."""
        self.clock = 0
        self.freed_at = 0
        """The clock when something became free last."""

    def copy(self) -> "ClusterArrays":
        """An independent copy."""
        other = copy(self)
        other.free, other.changed_at = self.free.copy(), self.changed_at.copy()
        return other

    @property
    def cpu_free(self) -> IntArray:
        """[rows] milli-cores."""
        return self.free[:, CPU_COLUMN]

    @property
    def mem_free(self) -> IntArray:
        """[rows] in the unit of `NodeRow.mem`."""
        return self.free[:, MEM_COLUMN]

    @property
    def dev_free(self) -> IntArray:
        """[rows, D] milli."""
        return self.free[:, HOST_COLUMNS:]

    def take(self, row: int, *, cpu: int, mem: int, milli: int, columns: Sequence[int] | IntArray) -> None:
        """Take an amount from a row; `milli` on each of the columns."""
        self.free[row, CPU_COLUMN] -= cpu
        self.free[row, MEM_COLUMN] -= mem
        self.dev_free[row, columns] -= milli
        self._tick(row)

    def release(self, row: int, *, cpu: int, mem: int, milli: int, columns: Sequence[int] | IntArray) -> None:
        """Undo a `take`."""
        self.take(row, cpu=-cpu, mem=-mem, milli=-milli, columns=columns)
        self.freed_at = self.clock

    def set_row(self, row: int, *, cpu: int, mem: int, free_milli: Sequence[int]) -> None:
        """Set the free amounts of a row."""
        free, now = self.free[row, : HOST_COLUMNS + len(free_milli)], [cpu, mem, *free_milli]
        is_freed = any(map(gt, now, free.tolist()))
        free[:] = now
        self._tick(row)
        if is_freed:
            self.freed_at = self.clock

    def shrink_row(self, row: int, *, cpu: int, mem: int, free_milli: Sequence[int]) -> None:
        """Set the free devices of a row and subtract CPU and memory; nothing may become free."""
        free = self.free[row, : HOST_COLUMNS + len(free_milli)]
        free[:] = (free.item(CPU_COLUMN) - cpu, free.item(MEM_COLUMN) - mem, *free_milli)
        self._tick(row)

    def _tick(self, row: int) -> None:
        self.clock += 1
        self.changed_at[row] = self.clock


def shuffle_key(name: str) -> int:
    """A fixed pseudo-random sort key: an order by name, size or model would favour some rows."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _ranks(names: Sequence[str]) -> IntArray:
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[sorted(range(len(names)), key=lambda row: natural_key(names[row]))] = np.arange(len(names))
    return ranks


class Columns(Struct, frozen=True):
    """Fixed columns of one agent: its healthy accelerators, in reverse natural order.

    The first of equal columns is then the last device, which is the one that the allocation takes.
    """

    layout: DeviceLayout
    accelerators: tuple[Device, ...]
    budgets: tuple[tuple[DeviceId, int], ...]
    """(id, budget) of each accelerator."""
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
        """Free milli of each accelerator; 0 while a slice of it, or its parent, is held."""
        free = [budget - used.get(device_id, 0) for device_id, budget in self.budgets]
        if free and (min(free) < 0 or max(free) > MILLI_MAX):
            free = [min(max(milli, 0), MILLI_MAX) for milli in free]
        if self.rivals:
            for column, device in enumerate(self.accelerators):
                if any(used.get(rival) for rival in self.rivals.get(device.id, ())):
                    free[column] = 0
        return free

    def host_free(self, used: Mapping[DeviceId, int]) -> tuple[int, int]:
        """Free milli-cores and memory."""
        slots = self.layout.slots
        cpu, mem = (slots[slot].free_sum(used) if slot in slots else 0 for slot in (CPU, MEM))
        return 1000 * cpu, mem

    def host_change(self, specs: Sequence[ResourceSpec], before: Occupancy, now: Occupancy) -> tuple[int, int] | None:
        """Milli-cores and memory taken between `before` and `now`, which differ on the devices of `specs` alone.

        None if a full count is needed.
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
        """Amount of one slot taken, in base units."""
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


class SlotDevices(Struct, frozen=True):
    """Devices that offer a slot; arrays [rows, D]."""

    has_slot: BoolArray
    quantum: IntArray
    is_plain: BoolArray
    """Whether the device has capacity 1 and the slot draws on its budget in milli."""


class DeviceTable:
    """Accelerators of all agents, in the rows of the cluster."""

    def __init__(self, rows: Sequence[Columns], *, nodes: Sequence[NodeId], width: int) -> None:
        self._rows = rows
        self._nodes = nodes
        self._shape = (len(rows), width)
        self._offers: dict[SlotName, SlotDevices] = {}
        self.size: Final = self._array(lambda device: device.budget)

    def offers(self, slot: SlotName) -> SlotDevices:
        """Devices that offer a slot."""
        if slot not in self._offers:
            plain_cost = MILLI // scale_of(slot)
            cost = self._array(lambda device: device.costs.get(slot, 0))
            self._offers[slot] = SlotDevices(
                has_slot=cost > 0,
                quantum=np.maximum(self._array(lambda device: device.quanta.get(slot, 1)), 1),
                is_plain=(cost == plain_cost) & (self.size == WHOLE_MILLI),
            )
        return self._offers[slot]

    def of_models(self, patterns: tuple[str, ...]) -> BoolArray:
        """[rows, D] devices whose model matches one of the patterns."""
        return self._array(lambda device: is_of_model(device.model, patterns)) > 0

    def among(self, devices: Iterable[BookedDevice]) -> BoolArray:
        """[rows, D] which devices are among these."""
        wanted = frozenset(devices)
        found = np.zeros(self._shape, dtype=np.bool_)
        for row, (columns, node_id) in enumerate(zip(self._rows, self._nodes, strict=True)):
            for column, device in enumerate(columns.accelerators):
                found[row, column] = (node_id, device.id) in wanted
        return found

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
