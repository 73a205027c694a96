"""A memo: what earlier passes found out, and a later one may use. It changes the time a pass takes, nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from operator import is_not
from typing import Final

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.feasibility import FeasibilityMemo
from aliquot.core.holders import Pairs, pairs_of
from aliquot.core.placement.standing import Standing
from aliquot.core.roster import Roster
from aliquot.core.snapshot import AgentRow
from aliquot_schema.ids import DeviceId, NodeId, SessionId, SlotName

HoldersBy = Mapping[tuple[NodeId, DeviceId], Sequence[SessionId]]


TOTALS_MAX: Final = 64
"""Slots with models whose totals are kept, at most."""


class Totals:
    """What is free of a slot on each open agent; counted anew where something else is held than before."""

    def __init__(self, agents: Sequence[AgentRow], slot: SlotName, models: tuple[str, ...]) -> None:
        self._agents = agents
        self._slot = slot
        self._models = models
        self._read: list[Occupancy | None] = [None] * len(agents)
        self.free = [0] * len(agents)
        """By agent, in base units."""

    def follow(self, held: Sequence[Occupancy]) -> None:
        """Count what is left when so much is held on the node of each agent."""
        for number, is_other in enumerate(map(is_not, held, self._read)):
            if is_other:
                left = DeviceMap(self._agents[number].layout, held[number])
                self.free[number] = left.free(self._slot, models=self._models).total
                self._read[number] = held[number]


class Memo:
    """To be given to one pass after the other, never to two at a time.

    What is known of a node goes by the identity of its `used` mapping, which therefore must never be changed in place;
    what is known of agents goes by the identity of their layouts.
    """

    def __init__(self) -> None:
        self.feasibility: Final = FeasibilityMemo()
        self.standing: Standing | None = None
        """The arrays of placement as some pass left them."""
        self.free_milli: dict[NodeId, tuple[Occupancy, int]] = {}
        """What is left of the accelerators of a node that is held so."""
        self._roster: Roster | None = None
        self._totals: dict[tuple[SlotName, tuple[str, ...]], Totals] = {}
        self._holders: tuple[HoldersBy, Pairs] | None = None

    def roster(self, agents: Sequence[AgentRow]) -> Roster:
        """The agents in order; everything else is forgotten when they are not the same as before."""
        if self._roster is None or not self._roster.is_of(agents):
            self._roster = Roster(agents)
            self.standing = None
            self.free_milli = {}
            self._totals = {}
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

    def holders(self, held: HoldersBy) -> Pairs:
        """Who holds what offers each slot; made once for the very same mapping."""
        assert self._roster is not None, "agents come before those who hold something of them"
        if self._holders is None or self._holders[0] is not held:
            self._holders = held, pairs_of(self._roster, _by_node(held))
        return self._holders[1]


def _by_node(held: HoldersBy) -> Iterator[tuple[NodeId, Sequence[DeviceId], Sequence[SessionId]]]:
    """Devices of a node that are held by the same sessions stand together most often: they count as one."""
    devices: list[DeviceId] = []
    last: tuple[NodeId, Sequence[SessionId]] | None = None
    for (node_id, device_id), sessions in held.items():
        if last is not None and last != (node_id, sessions):
            yield last[0], devices, last[1]
            devices = []
        last = node_id, sessions
        devices.append(device_id)
    if last is not None:
        yield last[0], devices, last[1]
