"""All GPUs of the cluster as people see them; a shared one counts by its parts."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from aliquot.service.agent_projection import HOST_SLOTS, device_views
from aliquot.service.cluster_capacity import COUNTED
from aliquot.service.snapshots import is_open
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device, DeviceHealth
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import MILLI
from aliquot_schema.statistics_views import GpusView, GpuView, NodeView
from aliquot_schema.views import DeviceView

Place = tuple[NodeId, DeviceId]
GONE: Final = DeviceHealth.GONE


def gpus_view(state: State) -> GpusView:
    """GPUs of agents that are alive or suspect, each once, however many agents see it; a whole one that is itself
    there is not counted in slices beside it."""
    agents = sorted(
        (agent for agent in state.agents.values() if agent.state in COUNTED), key=lambda agent: natural_key(agent.id)
    )
    devices: dict[Place, Device] = {}
    gpus: dict[Place, GpuView] = {}
    for agent in agents:
        takes_work = is_open(state, agent)
        for device, view in zip(agent.devices, device_views(state, agent), strict=True):
            place = (agent.node_id, device.id)
            if device.kind in HOST_SLOTS or device.health is GONE or (place in gpus and gpus[place].available):
                continue
            devices[place] = device
            gpus[place] = _gpu(state, agent, device, view, takes_work=takes_work)
    shown = [gpus[place] for place, device in devices.items() if (place[0], device.parent) not in devices]
    healthy = [place for place, device in devices.items() if device.health is DeviceHealth.HEALTHY]
    counted = [place for place in healthy if (place[0], devices[place].parent) not in devices]
    held = {place: _held_milli(state, place, devices[place]) for place in counted}
    free = sum(MILLI - held[place] for place in counted if gpus[place].available)
    return GpusView(
        total_gpus=float(len(counted)),
        available_gpus=free / MILLI,
        allocated_gpus=sum(held.values()) / MILLI,
        nodes=_nodes(agents, shown),
        gpus=tuple(sorted(shown, key=lambda gpu: (natural_key(gpu.node_id), natural_key(gpu.name)))),
    )


def _held_milli(state: State, place: Place, device: Device) -> int:
    node_id, device_id = place
    used = min(state.used.get(node_id, {}).get(device_id, 0), device.budget)
    return used * MILLI // device.budget


def _gpu(state: State, agent: Agent, device: Device, view: DeviceView, *, takes_work: bool) -> GpuView:
    return GpuView(
        id=device.id,
        node_id=agent.node_id,
        name=device.name,
        model=device.model,
        available=takes_work and device.health is DeviceHealth.HEALTHY and not view.external,
        memory_total=device.memory_bytes,
        memory_used=view.memory_used_bytes,
        utilization=view.utilization_pct,
        temperature=view.temperature_c,
        allocated=_held_milli(state, (agent.node_id, device.id), device) / MILLI,
        allocated_to=view.holders,
    )


def _nodes(agents: Iterable[Agent], gpus: Iterable[GpuView]) -> tuple[NodeView, ...]:
    of_node: dict[str, list[Agent]] = {}
    for agent in agents:
        of_node.setdefault(agent.node_id, []).append(agent)
    models: dict[str, Counter[str]] = {node_id: Counter() for node_id in of_node}
    for gpu in gpus:
        models[gpu.node_id][gpu.model] += 1
    return tuple(
        NodeView(
            node_id=node_id,
            hostname=found[0].hostname,
            gpu_count=models[node_id].total(),
            gpu_type=", ".join(model for model, _ in models[node_id].most_common()),
            agents=tuple(agent.id for agent in found),
        )
        for node_id, found in of_node.items()
    )
