"""What is left of the accelerators of all open agents in sum, in the unit of `LEAST_MILLI` of the queue."""

from collections.abc import Mapping
from itertools import compress
from operator import is_not
from typing import Final

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.roster import Roster
from aliquot_schema.ids import NodeId

NOTHING: Final[Occupancy] = {}
UNREAD: Final[Occupancy] = {}
"""Stands for what was never looked at: no other mapping is this one."""


class FreeMilli:
    """Counts anew the nodes on which something else is held than at the last count."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._nodes = tuple(roster.open_on)
        self._read: list[Occupancy | None] = [UNREAD] * len(self._nodes)
        """The very mapping that each node was counted by; None = nothing was held."""
        self._free = [0] * len(self._nodes)
        self._sum = 0

    def count(self, used: Mapping[NodeId, Occupancy]) -> int:
        """What is left when so much is held."""
        held = list(map(used.get, self._nodes))
        for number in compress(range(len(held)), map(is_not, held, self._read)):
            free = self.on(self._nodes[number], held[number] or NOTHING)
            self._sum += free - self._free[number]
            self._free[number] = free
        self._read = held
        return self._sum

    def on(self, node_id: NodeId, used: Occupancy) -> int:
        """Of one node. Each device counts once, by the slot that makes most of it."""
        return sum(
            max(max((budget - used.get(device_id, 0)) // cost * unit for cost, unit in units), 0)
            for device_id, budget, units in self._roster.accelerators_on[node_id]
        )
