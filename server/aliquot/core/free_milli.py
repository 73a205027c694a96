"""What is left of the accelerators of all open agents in sum, in the unit of `LEAST_MILLI` of the queue."""

from collections.abc import Iterable, Mapping
from itertools import compress
from operator import is_not
from typing import Final

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.roster import PLAIN, Accelerator, Roster
from aliquot_schema.devices import ResourceSpec
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

    def taken(self, node_id: NodeId, spec: ResourceSpec, *, before: Occupancy, now: Occupancy) -> int:
        """What is gone of one node since nothing but the devices of a spec changed."""
        known = self._roster.accelerators_on[node_id]
        changed = {
            device_id: known[device_id] for amounts in spec.values() for device_id in amounts if device_id in known
        }
        return _free(changed.values(), before) - _free(changed.values(), now)

    def on(self, node_id: NodeId, used: Occupancy) -> int:
        """Of one node."""
        return _free(self._roster.accelerators_on[node_id].values(), used)


def _free(accelerators: Iterable[Accelerator], used: Occupancy) -> int:
    """Each device counts once, by the slot that makes most of it."""
    held = used.get
    free = 0
    for device_id, budget, units in accelerators:
        left = budget - held(device_id, 0)
        if left > 0:
            free += left if units is PLAIN else max([left // cost * unit for cost, unit in units])
    return free
