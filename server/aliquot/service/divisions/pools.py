"""Pools, and what is in them, waits for them and runs there."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from aliquot.service.cluster_capacity import capacity_of
from aliquot.service.divisions.gpu_places import counted, gpu_places, gpu_sums
from aliquot.service.population import NOBODY, Counted
from aliquot.service.snapshots import is_open, is_present
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.division_views import ClusterPoolView, PoolGpusView
from aliquot_schema.ids import PoolId
from aliquot_schema.natural_order import natural_key


def pool_views(state: State, *, name: str | None = None) -> tuple[ClusterPoolView, ...]:
    """The pools of the policy in natural order, or the one of this name."""
    agents: dict[PoolId, list[Agent]] = {pool: [] for pool in state.policy.pools if name in (None, pool)}
    for agent in state.agents.values():
        if agent.pool in agents and is_present(agent):
            agents[agent.pool].append(agent)
    population = state.population.of_pools()
    return tuple(
        _view(state, pool, sorted(agents[pool], key=lambda agent: natural_key(agent.id)), population.get(pool, NOBODY))
        for pool in sorted(agents, key=natural_key)
    )


def _view(state: State, pool: PoolId, agents: Sequence[Agent], there: Counted) -> ClusterPoolView:
    return ClusterPoolView(
        name=pool,
        agents=tuple(agent.id for agent in agents),
        nodes=tuple(sorted({agent.node_id for agent in agents}, key=natural_key)),
        schedulable=any(is_open(state, agent) for agent in agents),
        total_queued=there.waiting,
        running=there.running,
        look=cache(lambda: _gpus(state, agents)),
        weigh=cache(lambda: capacity_of(state, agents)),
    )


def _gpus(state: State, agents: Sequence[Agent]) -> PoolGpusView:
    places = gpu_places(state, agents)
    models = Counter(places[place].device.model for place in counted(places))
    sums = gpu_sums(state, places)
    return PoolGpusView(
        count=models.total(),
        models=", ".join(model for model, _ in models.most_common()),
        total=sums.total,
        available=sums.available,
        allocated=sums.allocated,
    )
