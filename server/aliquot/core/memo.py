"""A memo: what earlier passes found out, and a later one may use. It changes the time a pass takes, nothing else."""

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Final

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.endings import Ends
from aliquot.core.feasibility import FeasibilityMemo
from aliquot.core.free_milli import FreeMilli
from aliquot.core.holders import HolderIndex, Pair
from aliquot.core.placement.standing import Standing
from aliquot.core.roster import Roster
from aliquot.core.snapshot import AgentRow, HoldersOn, RunningRow
from aliquot_schema.ids import NodeId, SlotName

NOTHING: Final[Occupancy] = {}
UNREAD: Final[Occupancy] = {}
"""Stands for what was never looked at: no other mapping is this one."""
TOTALS_MAX: Final = 64
"""Slots with models whose totals are kept, at most."""


class Totals:
    """What is free of a slot on each open agent; counted anew where something else is held than before."""

    def __init__(self, agents: Sequence[AgentRow], slot: SlotName, models: tuple[str, ...]) -> None:
        self._agents = agents
        self._slot = slot
        self._models = models
        self._read: Sequence[Occupancy | None] = [UNREAD] * len(agents)
        self.free = [0] * len(agents)
        """By agent, in base units."""

    def follow(self, held: Sequence[Occupancy | None]) -> None:
        """Count what is left when so much is held on the node of each agent; None = nothing is."""
        for number in compress(range(len(held)), map(is_not, held, self._read)):
            self.free[number] = self._free(self._agents[number].layout, held[number] or NOTHING)
        self._read = held

    def _free(self, layout: DeviceLayout, used: Occupancy) -> int:
        columns = layout.slots.get(self._slot)
        if columns is None or columns.has_rivals or self._models:
            return DeviceMap(layout, used).free(self._slot, models=self._models).total
        return columns.free_sum(used)


class Memo:
    """To be given to one pass after the other, never to two at a time.

    What is known of a node goes by the identity of its `used` mapping, which therefore must never be changed in place;
    what is known of agents goes by the identity of their layouts.
    """

    def __init__(self) -> None:
        self.feasibility: Final = FeasibilityMemo()
        self.standing: Standing | None = None
        """The arrays of placement as some pass left them."""
        self._roster: Roster | None = None
        self._totals: dict[tuple[SlotName, tuple[str, ...]], Totals] = {}
        self._free_milli: FreeMilli | None = None
        self._ends: tuple[Sequence[RunningRow], Ends] | None = None
        self._holders: HolderIndex | None = None

    def roster(self, agents: Sequence[AgentRow]) -> Roster:
        """The agents in order; everything else is forgotten when they are not the same as before."""
        if self._roster is None or not self._roster.is_of(agents):
            self._roster = Roster(agents)
            self.standing = None
            self._totals = {}
            self._free_milli = None
            self._holders = None
        return self._roster

    def totals(self, slot: SlotName, models: tuple[str, ...]) -> Totals:
        """What is free of a slot on devices of some models, agent by agent."""
        assert self._roster is not None, "agents come before what they have"
        key = slot, models
        if key not in self._totals:
            if len(self._totals) >= TOTALS_MAX:
                self._totals.clear()
            self._totals[key] = Totals(self._roster.open, slot, models)
        return self._totals[key]

    @property
    def free_milli(self) -> FreeMilli:
        """What is left of all accelerators."""
        assert self._roster is not None, "agents come before what they have"
        if self._free_milli is None:
            self._free_milli = FreeMilli(self._roster)
        return self._free_milli

    def ends(self, running: tuple[RunningRow, ...]) -> Ends:
        """When they end; made once for the very same rows."""
        if self._ends is None or self._ends[0] is not running:
            self._ends = running, Ends(running)
        return self._ends[1]

    def holders(self, held: Mapping[NodeId, HoldersOn]) -> Mapping[SlotName, Sequence[Pair]]:
        """Who holds what offers each slot; to be read in this pass only."""
        assert self._roster is not None, "agents come before those who hold something of them"
        if self._holders is None:
            self._holders = HolderIndex(self._roster)
        return self._holders.follow(held)
