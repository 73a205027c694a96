"""Feasible requests: caches which kinds of requests the registered agents could run if they were empty."""

from collections.abc import Mapping
from typing import Final

from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.model.snapshot import AgentRow
from aliquot.core.scheduler.feasibility import impossible
from aliquot.core.validation.gpu_requests import PerGpu, least_per_gpu
from aliquot.service.state.agents import AgentRegistry
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import PoolId
from aliquot_schema.sessions import SessionSpec
from aliquot_schema.states import AgentState

KINDS_MAX: Final = 10_000
"""Cached kinds, at most; then the cache is cleared."""


class FeasibleRequests:
    """Cleared when an agent or the allocation options change. Caches feasible kinds only: refusals are rare, and their
    messages are long."""

    def __init__(self, registry: AgentRegistry) -> None:
        self._registry = registry
        self._version = -1
        self._options: AllocationOptions | None = None
        self._agents: Mapping[PoolId, list[AgentRow]] = {}
        self._kinds: set[object] = set()
        self._per_gpu: dict[PoolId, PerGpu] = {}

    @property
    def has_agents(self) -> bool:
        """Whether any agent is registered."""
        self._refresh()
        return bool(self._agents)

    def per_gpu(self, pool: PoolId) -> PerGpu:
        """The least CPUs and memory per GPU among the agents of a pool, see `least_per_gpu`."""
        self._refresh()
        if pool not in self._per_gpu:
            members = (agent for agent in self._registry.agents.values() if agent.pool == pool)
            self._per_gpu[pool] = least_per_gpu(
                agent.devices for agent in members if agent.state is not AgentState.LEFT
            )
        return self._per_gpu[pool]

    def refusal(self, spec: SessionSpec, *, pool: PoolId, options: AllocationOptions) -> AliquotError | None:
        """Why the agents of a pool could never run this; None when they could, or the pool has no agents."""
        self._refresh()
        if self._options != options or len(self._kinds) >= KINDS_MAX:
            self._options, self._kinds = options, set()
        agents = self._agents.get(pool)
        kind = (
            pool,
            tuple(spec.slots.items()),
            spec.cluster_size,
            spec.gpu_memory_bytes,
            spec.models,
            tuple(sorted(spec.labels.items())),
        )
        if agents is None or kind in self._kinds:
            return None
        refusal = impossible(spec, agents, options)
        if refusal is None:
            self._kinds.add(kind)
        return refusal

    def _refresh(self) -> None:
        if self._version != self._registry.version:
            self._version, self._agents, self._kinds = self._registry.version, self._registered(), set()
            self._per_gpu = {}

    def _registered(self) -> Mapping[PoolId, list[AgentRow]]:
        found: dict[PoolId, list[AgentRow]] = {}
        for agent in self._registry.agents.values():
            if agent.state is not AgentState.LEFT:
                found.setdefault(agent.pool, []).append(self._registry.row(agent, is_open=True))
        return found
