"""All GPUs of the cluster as people see them; a shared one counts by its parts."""

from collections import Counter
from collections.abc import Iterable, Mapping

from aliquot.service.agent_projection import device_views
from aliquot.service.cluster_capacity import COUNTED
from aliquot.service.divisions.gpu_places import GpuPlace, Place, counted, gpu_places, gpu_sums, held_milli
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.natural_order import natural_key
from aliquot_schema.slots import MILLI
from aliquot_schema.statistics_views import GpusView, GpuView, NodeView
from aliquot_schema.views import DeviceView


def gpus_view(state: State) -> GpusView:
    """GPUs of agents that are alive or suspect, each once, however many agents see it; a whole one that is itself
    there is not counted in slices beside it."""
    agents = sorted(
        (agent for agent in state.agents.values() if agent.state in COUNTED), key=lambda agent: natural_key(agent.id)
    )
    places = gpu_places(state, agents)
    views = {(str(agent.id), view.id): view for agent in agents for view in device_views(state, agent)}
    shown = [_gpu(state, place, places[place], views) for place in counted(places)]
    sums = gpu_sums(state, places)
    return GpusView(
        total_gpus=sums.total,
        available_gpus=sums.available,
        allocated_gpus=sums.allocated,
        nodes=_nodes(agents, shown),
        gpus=tuple(sorted(shown, key=lambda gpu: (natural_key(gpu.node_id), natural_key(gpu.name)))),
    )


def _gpu(state: State, place: Place, gpu: GpuPlace, views: Mapping[tuple[str, str], DeviceView]) -> GpuView:
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
        allocated=held_milli(state, place, device) / MILLI,
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
