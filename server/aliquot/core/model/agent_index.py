"""Agent index: the agents of a snapshot in a fixed order, with look-ups that stay valid while the agents do."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import floordiv
from typing import Final, NamedTuple

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.fairshare import CPU
from aliquot.core.model.snapshot import AgentRow, PendingRow, PlacementConstraints, milli_of
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, natural_key
from aliquot_schema.resources.slots import is_accelerator

Scope = tuple[tuple[AgentId, ...], PlacementConstraints]
"""Everything that decides which agents a row may be placed on, apart from free capacity."""
Units = tuple[tuple[int, int], ...]
"""Per slot of a device: (budget cost of one base unit, its worth in milli)."""
Accelerator = tuple[DeviceId, int, Units]
"""Device, budget, units."""
PLAIN: Final[Units] = ((1, 1),)
"""Units of a device whose free budget is its free milli; compared by identity."""
SCOPES_MAX: Final = 1000
"""Cached scopes."""


def scope_of(row: PendingRow) -> Scope:
    """The scope of a row; rows of one scope may be placed on the same agents."""
    return row.excluded_agents, row.where


class PoolSize(NamedTuple):
    """The devices of a pool, reachable or not."""

    milli: int
    """Accelerators, in milli of a device."""
    cores: int


class AgentIndex:
    """Agents in natural order of their ids."""

    def __init__(self, agents: Iterable[AgentRow]) -> None:
        self.given: Final = tuple(agents)
        self.agents: Final = tuple(sorted(self.given, key=lambda agent: natural_key(agent.id)))
        self.open: Final = tuple(agent for agent in self.agents if agent.is_open)
        """Agents that accept new sessions."""
        self.open_nodes: Final = tuple(agent.node_id for agent in self.open)
        """The node of each open agent."""
        self.by_id: Final = {agent.id: agent for agent in self.agents}
        self.has_temporary: Final = any(agent.is_spot or agent.until_us is not None for agent in self.given)
        """Whether there are spot agents, or agents that leave at a known time."""
        self._allowed: dict[Scope, Sequence[int]] = {}

    def holds(self, agents: Sequence[AgentRow]) -> bool:
        """Whether this is the index of these agents, with identical layouts."""
        return are_same(self.given, agents)

    def allowed(self, row: PendingRow) -> Sequence[int]:
        """Positions in `open` of the agents that a row may be placed on."""
        scope = scope_of(row)
        found = self._allowed.get(scope)
        if found is None:
            if len(self._allowed) >= SCOPES_MAX:
                self._allowed.clear()
            found = [number for number, agent in enumerate(self.open) if may_be_on(row, agent)]
            self._allowed[scope] = found
        return found

    @cached_property
    def pools(self) -> tuple[PoolId, ...]:
        """Names of the pools that have agents, sorted."""
        return tuple(sorted({agent.pool for agent in self.agents}))

    @cached_property
    def sizes(self) -> Mapping[PoolId, PoolSize]:
        """Size of each pool, by name; a pool without agents is missing."""
        members: dict[PoolId, list[AgentRow]] = defaultdict(list)
        for agent in self.agents:
            members[agent.pool].append(agent)
        return {pool: PoolSize(milli=capacity_milli(members[pool]), cores=_cores(members[pool])) for pool in self.pools}

    @cached_property
    def open_on(self) -> Mapping[NodeId, Sequence[AgentRow]]:
        """Open agents by node."""
        found: dict[NodeId, list[AgentRow]] = defaultdict(list)
        for agent in self.open:
            found[agent.node_id].append(agent)
        return dict(found)

    @cached_property
    def models(self) -> Sequence[str]:
        """Models of the accelerators of open agents, sorted."""
        slots = (columns for agent in self.open for slot, columns in agent.layout.slots.items() if is_accelerator(slot))
        return sorted({model for columns in slots for model in columns.models})

    @cached_property
    def accelerators_on(self) -> Mapping[NodeId, Mapping[DeviceId, Accelerator]]:
        """Healthy accelerators of open agents by node; a device shared by agents of a node is listed once."""
        return {node_id: _accelerators(agents) for node_id, agents in self.open_on.items()}


def capacity_milli(agents: Iterable[AgentRow]) -> int:
    """Milli of all accelerators; one that agents share, or that is cut into slices, counts once."""
    total = 0
    for layouts in _by_node(agents):
        found: dict[DeviceId, int] = {}
        for layout in layouts:
            devices = layout.devices
            for device_id in (
                one for slot, columns in layout.slots.items() if is_accelerator(slot) for one in columns.ids
            ):
                whole = devices[device_id].parent
                found[device_id] = 0 if whole is not None and whole in devices else devices[device_id].budget
        total += sum(found.values())
    return total


def _cores(agents: Iterable[AgentRow]) -> int:
    """Cores of all agents; one that agents of a node share counts once."""
    total = 0
    for layouts in _by_node(agents):
        columns = [layout.slots[CPU] for layout in layouts if CPU in layout.slots]
        if len(columns) == 1 and columns[0].is_units:
            total += len(columns[0].ids)
            continue
        found: dict[DeviceId, int] = {}
        for slot in columns:
            amounts = map(floordiv, slot.budgets, slot.costs)
            found.update(zip(slot.ids, amounts, strict=True))
        total += sum(found.values())
    return total


def _by_node(agents: Iterable[AgentRow]) -> Iterable[Sequence[DeviceLayout]]:
    """The layouts of each node's agents."""
    found: dict[NodeId, list[DeviceLayout]] = defaultdict(list)
    for agent in agents:
        found[agent.node_id].append(agent.layout)
    return found.values()


def are_same(before: Sequence[AgentRow], agents: Sequence[AgentRow]) -> bool:
    """Whether two lists of agents are equal; layouts are compared by identity, as a change makes a new one."""
    if before is agents:
        return True
    return len(before) == len(agents) and all(
        old is new or (old.layout is new.layout and old == new) for old, new in zip(before, agents, strict=True)
    )


def may_be_on(row: PendingRow, agent: AgentRow) -> bool:
    """Whether pool, labels and exclusions let a session be placed on an agent."""
    where = row.where
    if agent.node_id in where.closed_nodes or agent.id in row.excluded_agents:
        return False
    return agent.pool == where.pool and has_labels(agent, where.labels)


def has_labels(agent: AgentRow, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether an agent has all of these (name, value) labels."""
    return all(agent.labels.get(name) == value for name, value in labels)


def _accelerators(agents: Iterable[AgentRow]) -> dict[DeviceId, Accelerator]:
    budgets: dict[DeviceId, int] = {}
    units: dict[DeviceId, set[tuple[int, int]]] = {}
    for agent in agents:
        for slot, columns in agent.layout.slots.items():
            if unit := milli_of(slot):
                for device_id, budget, cost in zip(columns.ids, columns.budgets, columns.costs, strict=True):
                    budgets[device_id] = max(budget, budgets.get(device_id, 0))
                    units.setdefault(device_id, set()).add((cost, unit))
    return {device_id: (device_id, budget, _best(units[device_id])) for device_id, budget in budgets.items()}


def _best(units: set[tuple[int, int]]) -> Units:
    """A slot that takes single milli always gets the most out of a device, so the others can be dropped."""
    if (1, 1) in units and all(unit <= cost for cost, unit in units):
        return PLAIN
    return tuple(sorted(units))
