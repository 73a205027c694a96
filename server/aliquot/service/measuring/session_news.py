"""News of sessions for the log of the server: who was given which devices, and whose allocation failed.

Ids, amounts and codes alone: a command, its environment and its output are nobody's business here.
"""

import logging
from typing import Final

from aliquot.service.allocated_gpus import allocated_gpus
from aliquot.service.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import EndEvidence, Lease
from aliquot_schema.sessions import Session

log: Final = logging.getLogger("aliquot.sessions")


class SessionNews:
    """Hears every event of a leader, and tells when the state holds all of its commit."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._given: list[SessionId] = []

    def take(self, event: Event) -> None:
        """Take in what happened."""
        record = event.record
        if isinstance(record, Session):
            if event.kind == "session.scheduled" or (event.kind == "session.running" and record.is_outside):
                self._given.append(record.id)
            elif event.kind == "session.failed" and record.started_us is None and record.tasks is None:
                self._tell_failed(record)
        elif isinstance(record, Lease) and record.evidence is EndEvidence.REFUSED and event.kind == "lease.released":
            self._tell_refused(record)

    def settle(self) -> None:
        """All of a commit is in the state."""
        given, self._given = self._given, []
        if log.isEnabledFor(logging.INFO):
            for session_id in given:
                session = self._state.sessions.get(session_id)
                if session is not None:
                    self._tell_given(session)

    def _tell_given(self, session: Session) -> None:
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

    def _tell_failed(self, session: Session) -> None:
        reason = "unknown" if session.failure is None else session.failure.code
        fields = {"event": "allocation_failed", "session_id": session.id, "user": session.owner, "reason": reason}
        log.warning("allocation failed", extra={**fields, "attempt": session.attempt})

    def _tell_refused(self, lease: Lease) -> None:
        fields = {"event": "allocation_failed", "session_id": lease.session_id, "user": lease.owner}
        log.warning("allocation failed", extra={**fields, "reason": "launch_refused", "agent_id": lease.agent_id})
