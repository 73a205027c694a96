"""The roster: the agents of a snapshot in a fixed order, with what never changes while they stay the same."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from aliquot.core.snapshot import AgentRow, PendingRow
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SlotName
from aliquot_schema.natural_order import natural_key


class Roster:
    """Agents in natural order of their ids."""

    def __init__(self, agents: Iterable[AgentRow]) -> None:
        self.given: Final = tuple(agents)
        self.agents: Final = tuple(sorted(self.given, key=lambda agent: natural_key(agent.id)))
        self.open: Final = tuple(agent for agent in self.agents if agent.is_open)
        """Those that take something new."""
        self.by_id: Final = {agent.id: agent for agent in self.agents}
        self._offered: dict[AgentId, Mapping[DeviceId, tuple[SlotName, ...]]] = {}

    def is_of(self, agents: Sequence[AgentRow]) -> bool:
        """Whether these are the same agents, with the very same layouts."""
        return are_same(self.given, agents)

    @cached_property
    def open_on(self) -> Mapping[NodeId, Sequence[AgentRow]]:
        """Open agents by node."""
        found: dict[NodeId, list[AgentRow]] = defaultdict(list)
        for agent in self.open:
            found[agent.node_id].append(agent)
        return dict(found)

    def offered(self, agent: AgentRow) -> Mapping[DeviceId, tuple[SlotName, ...]]:
        """The slots that each healthy device of an agent offers."""
        found = self._offered.get(agent.id)
        if found is None:
            found = self._offered[agent.id] = _offered(agent)
        return found


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


def _offered(agent: AgentRow) -> dict[DeviceId, tuple[SlotName, ...]]:
    found: dict[DeviceId, tuple[SlotName, ...]] = {}
    for slot, columns in agent.layout.slots.items():
        own = (slot,)
        for device_id in columns.ids:
            known = found.get(device_id)
            found[device_id] = own if known is None else (*known, slot)
    return found
