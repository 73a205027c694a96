"""Running sessions: builds their snapshot rows from kernels, leases, agents and forecasts in memory."""

from collections.abc import Iterable, Mapping

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, RunningRow
from aliquot.service.state.agents import AgentRegistry
from aliquot.service.state.forecasts import Forecasts
from aliquot.service.state.indexes import ExternalAllocationIndex, external_allocation_row
from aliquot.service.state.rows import running_row
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState


class RunningSessions:
    """Reads the indexes of the state; holds no data of its own."""

    def __init__(
        self,
        *,
        sessions: Mapping[SessionId, Session],
        kernels_of: Mapping[SessionId, Mapping[KernelId, Kernel]],
        leases: Mapping[LeaseId, Lease],
        outside: ExternalAllocationIndex,
        registry: AgentRegistry,
        forecasts: Forecasts,
    ) -> None:
        self._sessions = sessions
        self._kernels_of = kernels_of
        self._leases = leases
        self._outside = outside
        self._registry = registry
        self._forecasts = forecasts

    def row(self, session_id: SessionId, *, policy: Policy) -> RunningRow | None:
        """The row of a session; None when it holds no devices."""
        session = self._sessions.get(session_id)
        if session is not None and session.is_outside:
            return external_allocation_row(session, self._outside.of(session_id), rows_of=self._rows_of)
        kernels = [
            kernel for kernel in self._kernels_of.get(session_id, {}).values() if kernel.state is not KernelState.EXITED
        ]
        held = [(kernel, self._leases[LeaseId(kernel.id)]) for kernel in kernels if LeaseId(kernel.id) in self._leases]
        if session is None or not held:
            return None
        return running_row(
            session,
            held,
            agents=self._rows_of(kernel.agent_id for kernel, _ in held),
            policy=policy,
            predicted=self._forecasts.of(session_id),
        )

    def _rows_of(self, agents: Iterable[AgentId]) -> list[AgentRow]:
        return [self._registry.row(self._registry.agents[name], is_open=True) for name in dict.fromkeys(agents)]
