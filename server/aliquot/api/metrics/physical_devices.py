"""Physical devices: each accelerator of the cluster once, however many agents see it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aliquot.service.agent_projection import HOST_SLOTS
from aliquot.service.cluster_capacity import COUNTED
from aliquot.service.measuring.cluster_view import ClusterView
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device, DeviceHealth, DeviceReading
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.natural_order import natural_key

GONE: Final = DeviceHealth.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One accelerator, or a slice of one that is not itself there."""

    node_id: NodeId
    agent_id: AgentId
    """Of several that share it, the first in natural order that can be asked."""
    device: Device
    reading: DeviceReading | None
    held: float
    """The part of it that is held, 0 to 1."""
    is_blocked: bool
    """Whether processes of others use it, so that it is given to nobody."""

    @property
    def is_offered(self) -> bool:
        """Whether what is free of it can be given away, as far as the device is concerned."""
        return self.device.health is DeviceHealth.HEALTHY and not self.is_blocked


def physical_devices(view: ClusterView) -> tuple[Part, ...]:
    """Those of agents that are there, the agents in natural order, but that those which can be asked come first."""
    found: dict[tuple[NodeId, DeviceId], Part] = {}
    for agent in _present(view):
        for device in agent.devices:
            if device.kind not in HOST_SLOTS and device.health is not GONE:
                found.setdefault((agent.node_id, device.id), _part(view, agent, device))
    return tuple(part for part in found.values() if (part.node_id, part.device.parent) not in found)


def _present(view: ClusterView) -> Iterator[Agent]:
    counted = (agent for agent in view.agents if agent.state in COUNTED)
    yield from sorted(counted, key=lambda agent: (agent.id not in view.reachable, natural_key(agent.id)))


def _part(view: ClusterView, agent: Agent, device: Device) -> Part:
    used = view.used.get(agent.node_id, {}).get(device.id, 0)
    return Part(
        node_id=agent.node_id,
        agent_id=agent.id,
        device=device,
        reading=view.readings.get((agent.id, device.id)) if agent.id in view.reachable else None,
        held=min(used, device.budget) / device.budget,
        is_blocked=device.id in view.blocked.get(agent.node_id, {}),
    )
