"""Forecasts: predicted run times of sessions, learned from sessions that have ended."""

from typing import Final

from aliquot.core.model.snapshot import milli_of, request_of
from aliquot.core.prediction import Prediction, Predictor, Workload, program_of
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

OWN_ENDS: Final = frozenset({"exit_code", "signal", "time_limit"})
"""Failure codes that end a session by itself, so that its run time predicts those of similar sessions."""


class Forecasts:
    """Predictions for sessions that have not ended. Ends must be learned in their order."""

    def __init__(self) -> None:
        self._predictor = Predictor()
        self._alike: dict[Workload, Prediction | None] = {}
        """Predictions since the last end was learned."""
        self._of: dict[SessionId, Prediction] = {}

    def learn(self, session: Session) -> None:
        """Learn from a session that has ended."""
        self._of.pop(session.id, None)
        duration_ms = ran_ms(session)
        if duration_ms is not None:
            self._predictor.learn(workload_of(session), duration_ms=duration_ms)
            self._alike.clear()

    def predict(self, session: Session) -> Prediction | None:
        """Predict a session's run time again, and store the prediction."""
        found = self.like(session)
        if found is not None:
            self._of[session.id] = found
        return found

    def like(self, session: Session) -> Prediction | None:
        """Prediction for a session like this one; None when nothing similar has ended yet."""
        workload = workload_of(session)
        if workload not in self._alike:
            self._alike[workload] = self._predictor.predict(workload)
        return self._alike[workload]

    def of(self, session_id: SessionId) -> Prediction | None:
        """The stored prediction; None when nothing similar had ended at that time, or the session has ended."""
        return self._of.get(session_id)


def workload_of(session: Session) -> Workload:
    """Features of a session that are known before it runs."""
    milli = sum(amount * milli_of(slot) for slot, amount in request_of(session)) * session.request.cluster_size
    return Workload(
        user=session.owner, program=program_of(session.spec.argv), milli=milli, limit_ms=session.spec.time_limit_ms
    )


def ran_ms(session: Session) -> int | None:
    """Run time of a session that ended by itself; None for all others. The end may be reported before the start."""
    began_us = session.started_us if session.started_us is not None else session.scheduled_us
    if session.tasks is not None or session.is_external_allocation or began_us is None or session.ended_us is None:
        return None
    is_own = session.state is SessionState.COMPLETED or (
        session.state is SessionState.FAILED and session.failure is not None and session.failure.code in OWN_ENDS
    )
    return max(session.ended_us - began_us, 0) // 1000 if is_own else None
