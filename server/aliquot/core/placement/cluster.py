"""The cluster as arrays: one row an agent, in a fixed pseudo-random order, with a clock of changes."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from operator import gt
from typing import Final

import numpy as np
import numpy.typing as npt

from aliquot_schema.natural_order import natural_key

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """What a row begins with: all of it is free unless `free_milli` says otherwise."""

    name: str
    cpu: int
    """Milli-cores free."""
    mem: int
    devices: tuple[int, ...]
    """The size of each accelerator, in milli."""
    free_milli: tuple[int, ...] | None = None
    """What is free of each accelerator; None = all of it."""


CPU_COLUMN: Final = 0
MEM_COLUMN: Final = 1
HOST_COLUMNS: Final = 2
"""The devices follow."""


class Cluster:
    """Free amounts by row. All rows change through `set_row`, `shrink_row`, `take` and `give_back`."""

    def __init__(self, nodes: Sequence[NodeRow]) -> None:
        self.nodes: Final = tuple(sorted(nodes, key=lambda node: (lot(node.name), node.name)))
        width = max((len(node.devices) for node in self.nodes), default=0)
        self.free = np.zeros((len(self.nodes), HOST_COLUMNS + max(width, 1)), dtype=np.int64)
        """[rows, 2 + D] CPU, memory, and each device; see the properties."""
        self.dev_size: Final = np.zeros((len(self.nodes), max(width, 1)), dtype=np.int64)
        """Milli; 0 where a row has no such device."""
        for row, node in enumerate(self.nodes):
            devices = node.devices if node.free_milli is None else node.free_milli
            self.dev_size[row, : len(node.devices)] = node.devices
            self.free[row, : HOST_COLUMNS + len(devices)] = (node.cpu, node.mem, *devices)
        self.row_of: Final = {node.name: row for row, node in enumerate(self.nodes)}
        self.name_rank: Final = _ranks([node.name for node in self.nodes])
        """The place of each row in the natural order of the names."""
        self.changed_at = np.zeros(len(self.nodes), dtype=np.int64)
        """The clock's reading when each row was changed last."""
        self.clock = 0
        self.freed_at = 0
        """The clock's reading when something became free last."""

    def twin(self) -> "Cluster":
        """The same amounts, to be changed apart."""
        twin = copy(self)
        twin.free, twin.changed_at = self.free.copy(), self.changed_at.copy()
        return twin

    @property
    def cpu_free(self) -> IntArray:
        """[rows] milli-cores."""
        return self.free[:, CPU_COLUMN]

    @property
    def mem_free(self) -> IntArray:
        """[rows]"""
        return self.free[:, MEM_COLUMN]

    @property
    def dev_free(self) -> IntArray:
        """[rows, D] milli."""
        return self.free[:, HOST_COLUMNS:]

    def take(self, row: int, *, cpu: int, mem: int, milli: int, columns: Sequence[int] | IntArray) -> None:
        """Hold an amount; `milli` on each of the columns."""
        self.free[row, CPU_COLUMN] -= cpu
        self.free[row, MEM_COLUMN] -= mem
        self.dev_free[row, columns] -= milli
        self._tick(row)

    def give_back(self, row: int, *, cpu: int, mem: int, milli: int, columns: Sequence[int] | IntArray) -> None:
        """Undo a `take`."""
        self.take(row, cpu=-cpu, mem=-mem, milli=-milli, columns=columns)
        self.freed_at = self.clock

    def set_row(self, row: int, *, cpu: int, mem: int, free_milli: Sequence[int]) -> None:
        """Write down anew what is free."""
        free, now = self.free[row, : HOST_COLUMNS + len(free_milli)], [cpu, mem, *free_milli]
        is_freed = any(map(gt, now, free.tolist()))
        free[:] = now
        self._tick(row)
        if is_freed:
            self.freed_at = self.clock

    def shrink_row(self, row: int, *, cpu: int, mem: int, free_milli: Sequence[int]) -> None:
        """Write down what is left of the devices, and that so much of CPU and memory is gone; nothing became free."""
        free = self.free[row, : HOST_COLUMNS + len(free_milli)]
        free[:] = (free.item(CPU_COLUMN) - cpu, free.item(MEM_COLUMN) - mem, *free_milli)
        self._tick(row)

    def _tick(self, row: int) -> None:
        self.clock += 1
        self.changed_at[row] = self.clock


def lot(name: str) -> int:
    """A fixed pseudo-random number: rows sorted by names, sizes or models would favour some of them."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _ranks(names: Sequence[str]) -> IntArray:
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[sorted(range(len(names)), key=lambda row: natural_key(names[row]))] = np.arange(len(names))
    return ranks
