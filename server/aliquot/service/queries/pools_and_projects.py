"""Pools and projects: read models with their agents, queues, GPUs held, usage and quotas.

Members of projects are shown to operators only, not here.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.scheduler.backlog import unit_ms
from aliquot.core.scheduler.wait_bounds import order_bound_text
from aliquot.service.quotas import is_void, quota_view, usage_views
from aliquot.service.state.indexes import NO_SESSIONS, QueueCounts
from aliquot.service.state.projects import known_projects
from aliquot.service.state.snapshots import is_open, is_present
from aliquot.service.state.state import State
from aliquot.service.views.gpus import capacity_of, counted, gpu_places, gpu_sums
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import DeviceId, PoolId, ProjectId, natural_key
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.resources.devices import Device
from aliquot_schema.resources.leases import Lease
from aliquot_schema.resources.slots import MILLI, is_accelerator
from aliquot_schema.sessions import DEFAULT_PROJECT
from aliquot_schema.views.admin import ClusterPoolView, PoolGpusView, ProjectView, QuotaView, UsageView


def pool_views(state: State, *, name: str | None = None, now_us: int) -> tuple[ClusterPoolView, ...]:
    """All pools of the policy in natural order, or the pool `name`."""
    agents: dict[PoolId, list[Agent]] = {pool: [] for pool in state.policy.pools if name in (None, pool)}
    for agent in state.agents.values():
        if agent.pool in agents and is_present(agent):
            agents[agent.pool].append(agent)
    population = state.pending_counts.of_pools()
    return tuple(
        _view(
            state,
            pool,
            sorted(agents[pool], key=lambda agent: natural_key(agent.id)),
            population.get(pool, NO_SESSIONS),
            now_us=now_us,
        )
        for pool in sorted(agents, key=natural_key)
    )


def _view(state: State, pool: PoolId, agents: Sequence[Agent], counts: QueueCounts, *, now_us: int) -> ClusterPoolView:
    return ClusterPoolView(
        name=pool,
        agents=tuple(agent.id for agent in agents),
        nodes=tuple(sorted({agent.node_id for agent in agents}, key=natural_key)),
        schedulable=any(is_open(state, agent) for agent in agents),
        total_queued=counts.waiting,
        running=counts.running,
        order_bound=order_bound_text(state.rules, unit_ms=unit_ms(state.backlogs.peaks.get(pool), now_us)),
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


def gpus_by_project(state: State) -> Mapping[ProjectId, float]:
    """GPUs held per project, shares as fractions. Leases without a session count in the default project."""
    held: Counter[ProjectId] = Counter()
    for leases in state.open_leases.values():
        for lease in leases.values():
            session = None if lease.session_id is None else state.sessions.get(lease.session_id)
            project = DEFAULT_PROJECT if session is None else session.project
            held[project] += _milli(lease, state.layouts[lease.agent_id].devices)
    return {project: milli / MILLI for project, milli in held.items()}


def _milli(lease: Lease, devices: Mapping[DeviceId, Device]) -> int:
    held = occupancy_on([{slot: lease.spec[slot] for slot in lease.spec if is_accelerator(slot)}], devices)
    return sum(_device_milli(units, devices.get(device_id)) for device_id, units in held.items())


def _device_milli(units: int, device: Device | None) -> int:
    return units if device is None else units * MILLI // device.budget


def project_views(state: State, *, name: str | None = None, now_us: int) -> tuple[ProjectView, ...]:
    """All projects in natural order, or the project `name`."""
    usage: defaultdict[str, list[UsageView]] = defaultdict(list)
    users: defaultdict[str, set[str]] = defaultdict(set)
    for used in usage_views(state.usage, project=name, now_us=now_us):
        usage[used.project].append(used)
        users[used.project].add(used.user)
    for project, owner in state.pending_counts.owners():
        users[project].add(owner)
    quotas, held, counts = _quotas(state), gpus_by_project(state), state.pending_counts.of_projects()
    known = sorted(known_projects(state), key=natural_key)
    return tuple(
        ProjectView(
            name=project,
            users=tuple(sorted(users[project], key=natural_key)),
            total_queued=counts.get(ProjectId(project), NO_SESSIONS).waiting,
            running=counts.get(ProjectId(project), NO_SESSIONS).running,
            allocated_gpus=held.get(ProjectId(project), 0.0),
            usage=tuple(usage[project]),
            gpu_hours=sum(used.gpu_hours for used in usage[project]),
            gpu_hours_month=sum(used.gpu_hours_month for used in usage[project]),
            share=sum(used.share for used in usage[project]),
            quota=quotas.get(project),
        )
        for project in known
        if name in (None, project)
    )


def _quotas(state: State) -> Mapping[str, QuotaView]:
    found = (quota for quota in state.quotas.values() if quota.scope is QuotaScope.PROJECT and not is_void(quota))
    return {quota.name: quota_view(quota) for quota in found}
