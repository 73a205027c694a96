"""GPU views: capacity of the cluster or a pool, and every physical GPU with what is held and free.

Each physical device counts once, however many agents share it. Slices (MIG) of a device that is itself visible are not
counted in addition. Fractions held count as fractions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from aliquot.service.state.snapshots import is_open
from aliquot.service.state.state import State
from aliquot.service.views.agents import HOST_SLOTS, device_views
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, NodeId, SlotName, natural_key
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.resources.slots import MILLI, format_milli, is_accelerator, is_size
from aliquot_schema.resources.units import format_size
from aliquot_schema.states import AgentState
from aliquot_schema.views.agents import DeviceView
from aliquot_schema.views.server import SlotCapacityView
from aliquot_schema.views.statistics import GpusView, GpuView, NodeView

COUNTED = frozenset({AgentState.ALIVE, AgentState.SUSPECT})


def capacity_of(state: State, agents: Iterable[Agent]) -> tuple[SlotCapacityView, ...]:
    """Capacity of these agents, by slot name. Several slots of a device describe the same hardware in other units."""
    total: Counter[SlotName] = Counter()
    allocated: Counter[SlotName] = Counter()
    for node_id, device in _devices(agents):
        used = min(device.budget, state.used.get(node_id, {}).get(device.id, 0))
        for slot, cost in device.costs.items():
            total[slot] += _in_slot(slot, device.budget, cost=cost)
            allocated[slot] += _in_slot(slot, used, cost=cost)
    return tuple(_view(slot, total[slot], allocated[slot]) for slot in sorted(total))


def _devices(agents: Iterable[Agent]) -> Iterator[tuple[NodeId, Device]]:
    """Healthy devices, without slices of a device in the list."""
    found: dict[tuple[NodeId, DeviceId], Device] = {}
    for agent in agents:
        if agent.state in COUNTED:
            healthy = (device for device in agent.devices if device.health is DeviceHealth.HEALTHY)
            found.update(((agent.node_id, device.id), device) for device in healthy)
    for (node_id, _), device in found.items():
        if device.parent is None or (node_id, device.parent) not in found:
            yield node_id, device


def _in_slot(slot: SlotName, units: int, *, cost: int) -> int:
    """Budget units as thousandths of an accelerator slot, else in the slot's base unit."""
    return units * MILLI // cost if is_accelerator(slot) and cost > 1 else units // cost


def _view(slot: SlotName, total: int, allocated: int) -> SlotCapacityView:
    total_text, available, held = (_text(slot, amount) for amount in (total, total - allocated, allocated))
    return SlotCapacityView(slot=slot, total=total_text, available=available, allocated=held)


def _text(slot: SlotName, amount: int) -> str:
    if is_size(slot):
        return format_size(amount)
    return format_milli(amount) if is_accelerator(slot) else str(amount)


GpuKey = tuple[NodeId, DeviceId]


class GpuPlace(NamedTuple):
    """A GPU, with one of the agents that have it."""

    agent: Agent
    device: Device
    available: bool
    """Whether its free part may be allocated."""


class GpuSums(Struct, frozen=True, kw_only=True):
    """In GPUs, with fractions."""

    total: float
    available: float
    allocated: float


def gpu_places(state: State, agents: Iterable[Agent]) -> Mapping[GpuKey, GpuPlace]:
    """GPUs of agents that are alive or suspect; of several agents with one GPU, the first that may allocate it."""
    found: dict[GpuKey, GpuPlace] = {}
    for agent in agents:
        if agent.state not in COUNTED:
            continue
        takes_work, blocked = is_open(state, agent), state.foreign_usage.blocked.get(agent.node_id, {})
        for device in agent.devices:
            key = (agent.node_id, device.id)
            if device.kind in HOST_SLOTS or device.health is DeviceHealth.GONE:
                continue
            if device.health is DeviceHealth.LEAVING and key in found:
                continue
            if key not in found or not found[key].available:
                available = takes_work and device.health is DeviceHealth.HEALTHY and device.id not in blocked
                found[key] = GpuPlace(agent, device, available)
    return found


def counted(places: Mapping[GpuKey, GpuPlace]) -> list[GpuKey]:
    """Those that are not a slice of another GPU in the mapping."""
    return [key for key, gpu in places.items() if (key[0], gpu.device.parent) not in places]


def gpu_sums(state: State, places: Mapping[GpuKey, GpuPlace]) -> GpuSums:
    """Sums over healthy GPUs."""
    healthy = [key for key in counted(places) if places[key].device.health is DeviceHealth.HEALTHY]
    held = {key: held_milli(state, key, places[key].device) for key in healthy}
    free = sum(MILLI - milli for key, milli in held.items() if places[key].available)
    return GpuSums(total=float(len(held)), available=free / MILLI, allocated=sum(held.values()) / MILLI)


def held_milli(state: State, key: GpuKey, device: Device) -> int:
    """Thousandths of a device that are held."""
    node_id, device_id = key
    used = min(state.used.get(node_id, {}).get(device_id, 0), device.budget)
    return used * MILLI // device.budget


def gpus_view(state: State) -> GpusView:
    """All GPUs of agents that are alive or suspect."""
    agents = sorted(
        (agent for agent in state.agents.values() if agent.state in COUNTED), key=lambda agent: natural_key(agent.id)
    )
    places = gpu_places(state, agents)
    views = {(str(agent.id), view.id): view for agent in agents for view in device_views(state, agent)}
    gpus = [_gpu(state, key, places[key], views) for key in counted(places)]
    gpus.sort(key=lambda gpu: (natural_key(gpu.node_id), natural_key(gpu.name)))
    sums = gpu_sums(state, places)
    return GpusView(
        total_gpus=sums.total,
        available_gpus=sums.available,
        allocated_gpus=sums.allocated,
        nodes=_nodes(agents, gpus),
        gpus=tuple(gpus),
    )


def _gpu(state: State, key: GpuKey, gpu: GpuPlace, views: Mapping[tuple[str, str], DeviceView]) -> GpuView:
    agent, device = gpu.agent, gpu.device
    view = views[agent.id, device.id]
    return GpuView(
        id=device.id,
        node_id=agent.node_id,
        name=device.name,
        model=device.model,
        available=gpu.available,
        memory_total=device.memory_bytes,
        memory_used=view.memory_used_bytes,
        utilization=view.utilization_pct,
        temperature=view.temperature_c,
        allocated=held_milli(state, key, device) / MILLI,
        allocated_to=view.holders,
    )


def _nodes(agents: Iterable[Agent], gpus: Iterable[GpuView]) -> tuple[NodeView, ...]:
    of_node: dict[str, list[Agent]] = {}
    for agent in agents:
        of_node.setdefault(agent.node_id, []).append(agent)
    models: dict[str, Counter[str]] = {node_id: Counter() for node_id in of_node}
    own: dict[str, list[GpuView]] = {node_id: [] for node_id in of_node}
    for gpu in gpus:
        models[gpu.node_id][gpu.model] += 1
        own[gpu.node_id].append(gpu)
    return tuple(
        NodeView(
            node_id=node_id,
            hostname=found[0].hostname,
            gpu_count=models[node_id].total(),
            gpu_type=", ".join(model for model, _ in models[node_id].most_common()),
            agents=tuple(agent.id for agent in found),
            gpus=tuple(own[node_id]),
        )
        for node_id, found in of_node.items()
    )
