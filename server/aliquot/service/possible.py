"""What the registered agents could run when they are empty, found out once for each kind of request."""

from collections.abc import Mapping
from typing import Final

from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.feasibility import impossible
from aliquot.core.snapshot import AgentRow
from aliquot.service.fleet import Fleet
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import PoolId
from aliquot_schema.sessions import SessionSpec
from aliquot_schema.states import AgentState

KINDS_MAX: Final = 10_000
"""Kinds remembered, at most."""


class Possible:
    """Forgets everything when an agent or the policy changes. Remembers what is possible, never what is not: refusals
    are rare, and say much."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._version = -1
        self._options: AllocationOptions | None = None
        self._agents: Mapping[PoolId, list[AgentRow]] = {}
        self._kinds: set[object] = set()

    @property
    def has_agents(self) -> bool:
        """Whether any agent is registered."""
        self._follow()
        return bool(self._agents)

    def refusal(self, spec: SessionSpec, *, pool: PoolId, options: AllocationOptions) -> AliquotError | None:
        """Why no registered agent of a pool could ever run this; None when they could, or the pool has none."""
        self._follow()
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

    def _follow(self) -> None:
        if self._version != self._fleet.version:
            self._version, self._agents, self._kinds = self._fleet.version, self._registered(), set()

    def _registered(self) -> Mapping[PoolId, list[AgentRow]]:
        found: dict[PoolId, list[AgentRow]] = {}
        for agent in self._fleet.agents.values():
            if agent.state is not AgentState.LEFT:
                found.setdefault(agent.pool, []).append(self._fleet.row(agent, is_open=True))
        return found
