"""The fleet: agents with the layouts of their devices, and which of them are on each node."""

from collections.abc import Mapping

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.snapshot import AgentRow
from aliquot.service.readings import Readings
from aliquot.service.rows import AgentRows
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, DeviceId, NodeId


class Fleet:
    """All agents ever known, those that left included."""

    def __init__(self) -> None:
        self.agents: dict[AgentId, Agent] = {}
        self.layouts: dict[AgentId, DeviceLayout] = {}
        self.reachable: set[AgentId] = set()
        self.readings = Readings()
        self.version = 0
        """Raised by whatever changes an agent."""
        self._on: dict[NodeId, dict[AgentId, None]] = {}
        self._rows = AgentRows()

    def put(self, agent: Agent) -> bool:
        """An agent is new, or another version; returns whether its devices, or the node that they are on, are."""
        self.version += 1
        known = self.agents.get(agent.id)
        self.agents[agent.id] = agent
        self._on.setdefault(agent.node_id, {})[agent.id] = None
        has_moved = known is None or known.node_id != agent.node_id
        if known is not None and has_moved:
            del self._on[known.node_id][agent.id]
        if known is not None and known.devices == agent.devices and known.slot_types == agent.slot_types:
            return has_moved
        self.layouts[agent.id] = DeviceLayout.of(agent.devices, slot_types=agent.slot_types)
        return True

    def on(self, node_id: NodeId) -> list[Agent]:
        """All agents of a node."""
        return [self.agents[agent_id] for agent_id in self._on.get(node_id, ())]

    def devices_on(self, node_id: NodeId) -> Mapping[DeviceId, Device]:
        """What the agents of a node have; a device that they share is here once."""
        return {device.id: device for agent in self.on(node_id) for device in agent.devices}

    def row(self, agent: Agent, *, is_open: bool) -> AgentRow:
        """An agent, as far as placing is concerned; the same row as before when nothing has changed."""
        return self._rows.row(agent, layout=self.layouts[agent.id], is_open=is_open)
