"""Caches between passes. They change how long a pass takes, never its plan.

All of them are keyed by identity: a result for a node is valid as long as the node's mapping of usage (or of holders)
is the very same object, a result for agents as long as their layouts are. Such mappings are therefore replaced, never
changed in place. One `PassCache` serves one pass at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Final, NamedTuple

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.model.agent_index import PLAIN, Accelerator, AgentIndex
from aliquot.core.model.queue import Kind
from aliquot.core.model.snapshot import AgentRow, HoldersOn, RunningRow
from aliquot.core.placement.placement_state import PlacementState
from aliquot.core.scheduler.backlog import RunningWork
from aliquot.core.scheduler.expected_ends import PlannedEnds
from aliquot.core.scheduler.feasibility import FeasibilityCache
from aliquot.core.scheduler.holders import HolderIndex, Pair
from aliquot.core.scheduler.temporary_agents import TemporaryRows
from aliquot_schema.ids import NodeId, SlotName
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.devices import ResourceSpec

NOTHING: Final[Occupancy] = {}
"""Usage of an idle node."""
UNREAD: Final[Occupancy] = {}
"""Placeholder for a node that was not counted yet; identical to no other mapping."""
TOTALS_MAX: Final = 64
"""Pairs of slot and models with cached totals."""


class FreeMilli:
    """Free accelerators of all open agents in total, in the unit of the queue's `LEAST_MILLI`."""

    def __init__(self, agent_index: AgentIndex) -> None:
        self._agent_index = agent_index
        self._nodes = tuple(agent_index.open_on)
        self._read: list[Occupancy | None] = [UNREAD] * len(self._nodes)
        """The mapping that each node was counted with; None = idle."""
        self._free = [0] * len(self._nodes)
        self._sum = 0

    def count(self, used: Mapping[NodeId, Occupancy]) -> int:
        """The total with `used` held; only nodes with another mapping than at the last call are counted."""
        held = list(map(used.get, self._nodes))
        for number in compress(range(len(held)), map(is_not, held, self._read)):
            free = self.on(self._nodes[number], held[number] or NOTHING)
            self._sum += free - self._free[number]
            self._free[number] = free
        self._read = held
        return self._sum

    def consumed(self, node_id: NodeId, spec: ResourceSpec, *, before: Occupancy, now: Occupancy) -> int:
        """How much less of a node is free after its usage changed, on the devices of a spec alone."""
        known = self._agent_index.accelerators_on[node_id]
        changed = {
            device_id: known[device_id] for amounts in spec.values() for device_id in amounts if device_id in known
        }
        return _free(changed.values(), before) - _free(changed.values(), now)

    def on(self, node_id: NodeId, used: Occupancy) -> int:
        """The total of one node."""
        return _free(self._agent_index.accelerators_on[node_id].values(), used)


def _free(accelerators: Iterable[Accelerator], used: Occupancy) -> int:
    """Each device counts once, by the slot that gets the most out of it."""
    held = used.get
    free = 0
    for device_id, budget, units in accelerators:
        left = budget - held(device_id, 0)
        if left > 0:
            free += left if units is PLAIN else max([left // cost * unit for cost, unit in units])
    return free


class Totals:
    """Free amount of a slot on each open agent."""

    def __init__(self, agents: Sequence[AgentRow], slot: SlotName, models: tuple[str, ...]) -> None:
        self._agents = agents
        self._slot = slot
        self._models = models
        self._read: Sequence[Occupancy | None] = [UNREAD] * len(agents)
        self.free = [0] * len(agents)
        """By position of the agent, in base units."""

    def follow(self, held: Sequence[Occupancy | None]) -> None:
        """Update `free`.

        Args:
            held: usage of each agent's node; None = idle. Agents with another mapping than before are counted. The
                list must not be changed afterwards.
        """
        if held is self._read:
            return
        for number in compress(range(len(held)), map(is_not, held, self._read)):
            self.free[number] = self._free(self._agents[number].layout, held[number] or NOTHING)
        self._read = held

    def _free(self, layout: DeviceLayout, used: Occupancy) -> int:
        columns = layout.slots.get(self._slot)
        if columns is None or columns.has_rivals or self._models:
            return DeviceMap(layout, used).free(self._slot, models=self._models).total
        return columns.free_sum(used)


class Shortages(NamedTuple):
    """Why kinds of rows do not fit while usage and holders stay the same."""

    used: Mapping[NodeId, Occupancy]
    holders: Mapping[NodeId, HoldersOn]
    by_kind: dict[int, tuple[Kind, int, Verdict]]
    """By number of the kind: the kind, the kernels of it that fit, and the verdict."""


class RunningTraits(NamedTuple):
    """What a pass has to know about running sessions as a whole."""

    asks_more_time: bool
    """Whether one of them asks for a later time limit."""
    is_elastic: bool
    """Whether one of them is an elastic gang that may grow."""

    @classmethod
    def of(cls, running: Iterable[RunningRow]) -> "RunningTraits":
        """The traits of these sessions."""
        rows = tuple(running)
        return cls(any([row.asks_limit_us is not None for row in rows]), any([row.elastic is not None for row in rows]))


class PassCache:
    """All caches of one sequence of passes; see the module's docstring."""

    def __init__(self) -> None:
        self.feasibility: Final = FeasibilityCache()
        self.temporary_rows: Final = TemporaryRows()
        self.placement_state: PlacementState | None = None
        """Placement arrays and scores at the end of an earlier pass."""
        self._agent_index: AgentIndex | None = None
        self._totals: dict[tuple[SlotName, tuple[str, ...]], Totals] = {}
        self._free_milli: FreeMilli | None = None
        self._work: tuple[Sequence[RunningRow], AgentIndex, RunningWork] | None = None
        self._traits: tuple[Sequence[RunningRow], RunningTraits] | None = None
        self._ends: tuple[Sequence[RunningRow], PlannedEnds] | None = None
        self._holders: HolderIndex | None = None
        self._shortages: Shortages | None = None

    def agent_index(self, agents: Sequence[AgentRow]) -> AgentIndex:
        """The agents, indexed; other agents, or other layouts, than before clear the rest of the cache."""
        if self._agent_index is None or not self._agent_index.holds(agents):
            self._agent_index = AgentIndex(agents)
            self.placement_state = None
            self._totals = {}
            self._free_milli = None
            self._holders = None
            self._shortages = None
        return self._agent_index

    def totals(self, slot: SlotName, models: tuple[str, ...]) -> Totals:
        """Free amounts of a slot on devices of some models, by agent."""
        assert self._agent_index is not None, "call agent_index() first"
        key = slot, models
        if key not in self._totals:
            if len(self._totals) >= TOTALS_MAX:
                self._totals.clear()
            self._totals[key] = Totals(self._agent_index.open, slot, models)
        return self._totals[key]

    @property
    def free_milli(self) -> FreeMilli:
        """Free accelerators in total."""
        assert self._agent_index is not None, "call agent_index() first"
        if self._free_milli is None:
            self._free_milli = FreeMilli(self._agent_index)
        return self._free_milli

    def work(self, running: Sequence[RunningRow], *, index: AgentIndex) -> RunningWork:
        """Running sessions in columns; kept while `running` is the same tuple, and the agents stay."""
        if self._work is None or self._work[0] is not running or self._work[1] is not index:
            self._work = running, index, RunningWork(running, index=index)
        return self._work[2]

    def traits(self, running: Sequence[RunningRow]) -> RunningTraits:
        """Traits of running sessions; kept while `running` is the same tuple."""
        if self._traits is None or self._traits[0] is not running or not isinstance(running, tuple):
            self._traits = running, RunningTraits.of(running)
        return self._traits[1]

    def ends(self, running: tuple[RunningRow, ...]) -> PlannedEnds:
        """Planned ends of running sessions; kept while `running` is the same tuple."""
        if self._ends is None or self._ends[0] is not running:
            self._ends = running, PlannedEnds(running)
        return self._ends[1]

    def shortages(
        self, used: Mapping[NodeId, Occupancy], holders: Mapping[NodeId, HoldersOn]
    ) -> dict[int, tuple[Kind, int, Verdict]]:
        """See `Shortages`; empty if usage or holders changed since the last call."""
        known = self._shortages
        # Equality compares the mappings of nodes by identity first. Copies are kept, as a node may get another mapping.
        if known is None or known.used != used or known.holders != holders:
            known = self._shortages = Shortages(dict(used), dict(holders), {})
        return known.by_kind

    def holders(self, held: Mapping[NodeId, HoldersOn]) -> Mapping[SlotName, Sequence[Pair]]:
        """Holders by slot; valid during this pass."""
        assert self._agent_index is not None, "call agent_index() first"
        if self._holders is None:
            self._holders = HolderIndex(self._agent_index)
        return self._holders.follow(held)
