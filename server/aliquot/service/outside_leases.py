"""Leases of work that is run outside: no kernel has them, and they live until they are given back or expire."""

from typing import Final

from aliquot.core import transitions
from aliquot.service.draft import Draft
from aliquot_schema.ids import SessionId
from aliquot_schema.leases import EndEvidence
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import SessionState

EXPIRED: Final = "lease_expired"


def end(draft: Draft, session: Session, evidence: EndEvidence, *, now_us: int) -> Session:
    """Give everything back, and end the session, unless that was done before."""
    failure = None
    if evidence is EndEvidence.EXPIRED:
        failure = Failure(code=EXPIRED, message="its time was over, and nobody had called again for it")
    ended = draft.put(transitions.end_outside(session, failure, now_us=now_us), _ENDS[evidence])
    release(draft, ended, evidence, now_us=now_us)
    return ended


def release(draft: Draft, session: Session, evidence: EndEvidence, *, now_us: int) -> None:
    """Give back what a session holds without kernels."""
    for lease in draft.leases_outside(session.id):
        draft.release(lease, evidence, now_us=now_us)


def end_overdue(draft: Draft, session_id: SessionId, *, now_us: int) -> None:
    """End it if its time is over; it may have been called for again since somebody looked."""
    session = draft.session(session_id)
    leases = draft.leases_outside(session_id)
    is_overdue = leases and all(lease.until_us is not None and lease.until_us <= now_us for lease in leases)
    if session is not None and session.state is SessionState.RUNNING and is_overdue:
        end(draft, session, EndEvidence.EXPIRED, now_us=now_us)


_ENDS: Final = {EndEvidence.GIVEN_BACK: "completed", EndEvidence.EXPIRED: "expired"}
