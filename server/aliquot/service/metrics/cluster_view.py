"""Cluster view: a consistent copy of the state for threads that compute metrics, and log lines about sessions.

Shallow copies suffice: records are frozen, and a node's mappings are replaced, never changed. Log lines contain ids,
amounts and codes only, never commands, environments or output.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot.service.state.state import State
from aliquot.service.views.terms import allocated_gpus
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.resources.leases import EndEvidence, Lease
from aliquot_schema.sessions import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The parts of the state that metrics use."""

    agents: tuple[Agent, ...]
    reachable: frozenset[AgentId]
    readings: Mapping[tuple[AgentId, DeviceId], DeviceReading]
    used: Mapping[NodeId, Mapping[DeviceId, int]]
    blocked: Mapping[NodeId, Mapping[DeviceId, int]]
    """Devices used by foreign processes."""
    sessions: tuple[Session, ...]
    verdicts: Mapping[SessionId, Verdict]
    users_holding: int
    now_us: int


def cluster_view(state: State, *, now_us: int) -> ClusterView:
    """Copy the state; on the event loop."""
    owners = {lease.owner for leases in state.open_leases.values() for lease in leases.values()}
    return ClusterView(
        agents=tuple(state.agents.values()),
        reachable=frozenset(state.reachable),
        readings=dict(state.readings),
        used=dict(state.used),
        blocked=state.foreign_usage.blocked,
        sessions=tuple(state.sessions.values()),
        verdicts=state.verdicts,
        users_holding=len(owners),
        now_us=now_us,
    )


log: Final = logging.getLogger("aliquot.sessions")


class SessionNews:
    """Logs allocations and failed allocations, once the state contains the whole commit."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._allocated: list[SessionId] = []

    def take(self, event: Event) -> None:
        """Handle an event while this server leads."""
        record = event.record
        if isinstance(record, Session):
            if event.kind == "session.scheduled" or (event.kind == "session.running" and record.is_external_allocation):
                self._allocated.append(record.id)
            elif event.kind == "session.failed" and record.started_us is None and record.tasks is None:
                self._log_failed(record)
        elif isinstance(record, Lease) and record.evidence is EndEvidence.REFUSED and event.kind == "lease.released":
            self._log_refused(record)

    def settle(self) -> None:
        """The state contains all events of a commit."""
        allocated, self._allocated = self._allocated, []
        if log.isEnabledFor(logging.INFO):
            for session_id in allocated:
                session = self._state.sessions.get(session_id)
                if session is not None:
                    self._log_allocated(session)

    def _log_allocated(self, session: Session) -> None:
        gpus = allocated_gpus(self._state, session)
        wait_s = max(0, (session.scheduled_us or 0) - session.queued_us) / 1e6
        fields = {
            "event": "session_allocated_devices",
            "session_id": session.id,
            "user": session.owner,
            "attempt": session.attempt,
            "devices": [gpu.gpu_id for gpu in gpus],
            "shares": [gpu.share for gpu in gpus],
            "agents": sorted({kernel.agent_id for kernel in self._state.kernels_in(session)}),
            "wait_s": round(wait_s, 3),
        }
        log.info("session allocated devices", extra=fields)

    def _log_failed(self, session: Session) -> None:
        reason = "unknown" if session.failure is None else session.failure.code
        fields = {"event": "allocation_failed", "session_id": session.id, "user": session.owner, "reason": reason}
        log.warning("allocation failed", extra={**fields, "attempt": session.attempt})

    def _log_refused(self, lease: Lease) -> None:
        fields = {"event": "allocation_failed", "session_id": lease.session_id, "user": lease.owner}
        log.warning("allocation failed", extra={**fields, "reason": "launch_refused", "agent_id": lease.agent_id})
