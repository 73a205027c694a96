"""Leases of external allocations: held without a kernel until they are given back, expire, or are ended."""

from collections.abc import Iterable, Mapping
from typing import Final

from aliquot.core import transitions
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.resources.leases import EndEvidence
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import SessionState


def end(draft: UnitOfWork, session: Session, evidence: EndEvidence, *, now_us: int) -> Session:
    """Release all leases of an external allocation and end its session; returns it."""
    what, failure = _ENDS[evidence]
    ended = draft.put(transitions.end_external_allocation(session, failure, now_us=now_us), what)
    release(draft, ended, evidence, now_us=now_us)
    return ended


def release(draft: UnitOfWork, session: Session, evidence: EndEvidence, *, now_us: int) -> None:
    """Release the leases that a session holds without kernels."""
    for lease in draft.external_leases(session.id):
        draft.release(lease, evidence, now_us=now_us)


def end_overdue(draft: UnitOfWork, session_id: SessionId, *, now_us: int) -> None:
    """End an external allocation whose leases have expired; one renewed meanwhile is left alone."""
    session = draft.session(session_id)
    leases = draft.external_leases(session_id)
    is_overdue = leases and all(lease.until_us is not None and lease.until_us <= now_us for lease in leases)
    if session is not None and session.state is SessionState.RUNNING and is_overdue:
        end(draft, session, EndEvidence.EXPIRED, now_us=now_us)


def end_on(draft: UnitOfWork, agent_id: AgentId, sessions: Iterable[SessionId], *, now_us: int) -> None:
    """End the external allocations with leases on a lost agent that an operator has released."""
    for session_id in sessions:
        session = draft.session(session_id)
        is_there = any(lease.agent_id == agent_id for lease in draft.external_leases(session_id))
        if session is not None and session.state is SessionState.RUNNING and is_there:
            end(draft, session, EndEvidence.OPERATOR, now_us=now_us)


_ENDS: Final[Mapping[EndEvidence, tuple[str, Failure | None]]] = {
    EndEvidence.GIVEN_BACK: ("completed", None),
    EndEvidence.EXPIRED: (
        "expired",
        Failure(code="lease_expired", message="its lease expired and was not renewed"),
    ),
    EndEvidence.OPERATOR: (
        "failed",
        Failure(code="agent_lost", message="its agent was lost, and an operator confirmed that its processes are gone"),
    ),
}
