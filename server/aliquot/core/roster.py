"""The roster: the agents of a snapshot in a fixed order, with what never changes while they stay the same."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from aliquot.core.snapshot import AgentRow, PendingRow, Where, milli_of
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import is_accelerator

Scope = tuple[tuple[AgentId, ...], Where]
"""What decides which agents a row may be put on, whatever is free there."""
Units = tuple[tuple[int, int], ...]
"""For each slot that may make most of a device: cost of a base unit, what that is worth in milli."""
Accelerator = tuple[DeviceId, int, Units]
"""A device with its budget."""
PLAIN: Final[Units] = ((1, 1),)
"""Of a device whose budget is what is free of it, in milli; known by identity."""
SCOPES_MAX: Final = 1000
"""Scopes remembered, at most."""


def scope_of(row: PendingRow) -> Scope:
    """Rows of one scope may be put on the same agents."""
    return row.excluded_agents, row.where


class Roster:
    """Agents in natural order of their ids."""

    def __init__(self, agents: Iterable[AgentRow]) -> None:
        self.given: Final = tuple(agents)
        self.agents: Final = tuple(sorted(self.given, key=lambda agent: natural_key(agent.id)))
        self.open: Final = tuple(agent for agent in self.agents if agent.is_open)
        """Those that take something new."""
        self.open_nodes: Final = tuple(agent.node_id for agent in self.open)
        """The nodes of those."""
        self.by_id: Final = {agent.id: agent for agent in self.agents}
        self._allowed: dict[Scope, Sequence[int]] = {}

    def is_of(self, agents: Sequence[AgentRow]) -> bool:
        """Whether these are the same agents, with the very same layouts."""
        return are_same(self.given, agents)

    def allowed(self, row: PendingRow) -> Sequence[int]:
        """Which of the open agents a row may be put on: their places in `open`."""
        scope = scope_of(row)
        found = self._allowed.get(scope)
        if found is None:
            if len(self._allowed) >= SCOPES_MAX:
                self._allowed.clear()
            found = [number for number, agent in enumerate(self.open) if may_be_on(row, agent)]
            self._allowed[scope] = found
        return found

    @cached_property
    def open_on(self) -> Mapping[NodeId, Sequence[AgentRow]]:
        """Open agents by node."""
        found: dict[NodeId, list[AgentRow]] = defaultdict(list)
        for agent in self.open:
            found[agent.node_id].append(agent)
        return dict(found)

    @cached_property
    def models(self) -> Sequence[str]:
        """Of the accelerators that open agents have, each once, in order."""
        slots = (columns for agent in self.open for slot, columns in agent.layout.slots.items() if is_accelerator(slot))
        return sorted({model for columns in slots for model in columns.models})

    @cached_property
    def accelerators_on(self) -> Mapping[NodeId, Mapping[DeviceId, Accelerator]]:
        """By node, the healthy accelerators that open agents have. Agents of a node may share devices: each is here
        once."""
        return {node_id: _accelerators(agents) for node_id, agents in self.open_on.items()}


def are_same(before: Sequence[AgentRow], agents: Sequence[AgentRow]) -> bool:
    """Whether nothing that placing goes by has changed; layouts are compared by identity, as they are made anew."""
    if before is agents:
        return True
    return len(before) == len(agents) and all(
        old is new or (old.layout is new.layout and old == new) for old, new in zip(before, agents, strict=True)
    )


def may_be_on(row: PendingRow, agent: AgentRow) -> bool:
    """Whether a session may be put on an agent, as far as pool, labels and exclusions are concerned."""
    where = row.where
    return agent.pool == where.pool and agent.id not in row.excluded_agents and has_labels(agent, where.labels)


def has_labels(agent: AgentRow, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether an agent has all of these labels, with these values."""
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
    """Nothing makes more of what is left than a slot that takes it by the milli."""
    if (1, 1) in units and all(unit <= cost for cost, unit in units):
        return PLAIN
    return tuple(sorted(units))
