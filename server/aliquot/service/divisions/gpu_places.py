"""The GPUs of some agents, each physical one once, and how much of them is held and free."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from aliquot.service.agent_projection import HOST_SLOTS
from aliquot.service.cluster_capacity import COUNTED
from aliquot.service.snapshots import is_open
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device, DeviceHealth
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.slots import MILLI

Place = tuple[NodeId, DeviceId]


class GpuPlace(NamedTuple):
    """A GPU as one of the agents sees it."""

    agent: Agent
    device: Device
    available: bool
    """Whether it may be given to somebody new, as far as something of it is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSums:
    """In GPUs; parts count as parts."""

    total: float
    available: float
    allocated: float


def gpu_places(state: State, agents: Iterable[Agent]) -> Mapping[Place, GpuPlace]:
    """The GPUs of those agents that are alive or suspect; of several that see one, the first that may give it away."""
    found: dict[Place, GpuPlace] = {}
    for agent in agents:
        if agent.state not in COUNTED:
            continue
        takes_work, blocked = is_open(state, agent), state.external.blocked.get(agent.node_id, {})
        for device in agent.devices:
            place = (agent.node_id, device.id)
            if device.kind in HOST_SLOTS or device.health is DeviceHealth.GONE:
                continue
            if place not in found or not found[place].available:
                available = takes_work and device.health is DeviceHealth.HEALTHY and device.id not in blocked
                found[place] = GpuPlace(agent, device, available)
    return found


def counted(places: Mapping[Place, GpuPlace]) -> list[Place]:
    """Of these, the ones that are no slice of another one."""
    return [place for place, gpu in places.items() if (place[0], gpu.device.parent) not in places]


def gpu_sums(state: State, places: Mapping[Place, GpuPlace]) -> GpuSums:
    """What there is of healthy ones."""
    healthy = [place for place in counted(places) if places[place].device.health is DeviceHealth.HEALTHY]
    held = {place: held_milli(state, place, places[place].device) for place in healthy}
    free = sum(MILLI - milli for place, milli in held.items() if places[place].available)
    return GpuSums(total=float(len(held)), available=free / MILLI, allocated=sum(held.values()) / MILLI)


def held_milli(state: State, place: Place, device: Device) -> int:
    """How much of a device is held, in milli of it."""
    node_id, device_id = place
    used = min(state.used.get(node_id, {}).get(device_id, 0), device.budget)
    return used * MILLI // device.budget
