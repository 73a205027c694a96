"""Forecasts: predicted run times of sessions, learned from sessions that have ended.

The prediction of a waiting session follows every end of a similar run. That of a running session is fixed at its start,
because reservations rely on it.
"""

from collections.abc import Mapping
from typing import Final

from aliquot.core.model.snapshot import request_milli, request_of
from aliquot.core.prediction import Prediction, Predictor, RunTimes, WaitingWorkloads, Workload
from aliquot.core.program_name import program_of
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

OWN_ENDS: Final = frozenset({"exit_code", "signal", "time_limit"})
"""Failure codes that end a session by itself, so that its run time predicts those of similar sessions."""


class Forecasts:
    """Predictions for sessions that have not ended. Ends must be learned in their order."""

    def __init__(self) -> None:
        self._predictor = Predictor()
        self._workloads = WaitingWorkloads(self._predictor)
        self._waiting: dict[SessionId, Workload] = {}
        self._started: dict[SessionId, Prediction] = {}

    def learn(self, session: Session) -> None:
        """Learn from a session that has ended."""
        self._started.pop(session.id, None)
        duration_ms = ran_ms(session)
        if duration_ms is not None:
            self._workloads.learn(workload_of(session), duration_ms=duration_ms)

    def wait(self, session: Session) -> Workload | None:
        """Predict a session while it waits; returns what its row is predicted by. Its request may have changed."""
        workload = workload_of(session)
        known = self._waiting.get(session.id)
        if known != workload:
            self._waiting[session.id] = workload
            self._workloads.join(workload)
            if known is not None:
                self._workloads.leave(known)
        self._started.pop(session.id, None)
        return workload

    def leave(self, session: Session) -> None:
        """A session waits no longer."""
        workload = self._waiting.pop(session.id, None)
        if workload is not None:
            self._workloads.leave(workload)

    def start(self, session: Session) -> None:
        """Fix the prediction of a session that holds devices; no effect when that was done before."""
        if session.id not in self._started:
            found = self.like(workload_of(session))
            if found is not None:
                self._started[session.id] = found

    def like(self, workload: Workload) -> Prediction | None:
        """Prediction for a session like these; None when too few similar ones have ended."""
        return self._predictor.predict(workload)

    def of(self, session_id: SessionId) -> Prediction | None:
        """The present prediction of a waiting session, or that of a running one at its start; None without one."""
        workload = self._waiting.get(session_id)
        return self._started.get(session_id) if workload is None else self._workloads.prediction(workload)

    def run_times(self) -> Mapping[Workload, RunTimes]:
        """Of all waiting workloads with a prediction; the same object until one of them changes."""
        return self._workloads.run_times()


def workload_of(session: Session) -> Workload:
    """Features of a session that are known before it runs."""
    milli = request_milli(request_of(session)) * session.request.cluster_size
    return Workload(
        user=session.owner, program=program_of(session.spec.argv), milli=milli, limit_ms=session.spec.time_limit_ms
    )


def ran_ms(session: Session) -> int | None:
    """Run time of a session that ended by itself, with what it kept of earlier attempts; None for all others. The end
    may be reported before the start."""
    began_us = session.started_us if session.started_us is not None else session.scheduled_us
    if session.tasks is not None or session.is_external_allocation or began_us is None or session.ended_us is None:
        return None
    is_own = session.state is SessionState.COMPLETED or (
        session.state is SessionState.FAILED and session.failure is not None and session.failure.code in OWN_ENDS
    )
    return session.kept_at_start_ms + max(session.ended_us - began_us, 0) // 1000 if is_own else None
