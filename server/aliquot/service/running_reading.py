"""Running sessions as a pass sees them, read from what is in memory of them."""

from collections.abc import Iterable, Mapping

from aliquot.core.policy import Policy
from aliquot.core.snapshot import AgentRow, RunningRow
from aliquot.service.fleet import Fleet
from aliquot.service.forecasting import Forecasts
from aliquot.service.outside_index import OutsideIndex, outside_row
from aliquot.service.rows import running_row
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState


class RunningReading:
    """Looks at the indexes of the state, and keeps nothing of its own."""

    def __init__(
        self,
        *,
        sessions: Mapping[SessionId, Session],
        kernels_of: Mapping[SessionId, Mapping[KernelId, Kernel]],
        leases: Mapping[LeaseId, Lease],
        outside: OutsideIndex,
        fleet: Fleet,
        forecasts: Forecasts,
    ) -> None:
        self._sessions = sessions
        self._kernels_of = kernels_of
        self._leases = leases
        self._outside = outside
        self._fleet = fleet
        self._forecasts = forecasts

    def row(self, session_id: SessionId, *, policy: Policy) -> RunningRow | None:
        """None = it holds nothing."""
        session = self._sessions.get(session_id)
        if session is not None and session.is_outside:
            return outside_row(session, self._outside.of(session_id), rows_of=self._rows_of)
        kernels = [
            kernel for kernel in self._kernels_of.get(session_id, {}).values() if kernel.state is not KernelState.EXITED
        ]
        held = [(kernel, self._leases[LeaseId(kernel.id)]) for kernel in kernels if LeaseId(kernel.id) in self._leases]
        if session is None or not held:
            return None
        prediction = self._forecasts.of(session_id)
        return running_row(
            session,
            held,
            agents=self._rows_of(kernel.agent_id for kernel, _ in held),
            policy=policy,
            predicted_ms=None if prediction is None else prediction.estimate_ms,
        )

    def _rows_of(self, agents: Iterable[AgentId]) -> list[AgentRow]:
        return [self._fleet.row(self._fleet.agents[name], is_open=True) for name in dict.fromkeys(agents)]
