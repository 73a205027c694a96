"""Leases of work that is run outside: no kernel has them, and they live until they are given back or expire."""

from collections.abc import Iterable, Mapping
from typing import Final

from aliquot.core import transitions
from aliquot.service.draft import Draft
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.leases import EndEvidence
from aliquot_schema.sessions import Failure, Session
from aliquot_schema.states import SessionState

WAITED_US_MAX: Final = 30_000_000
"""Who calls for devices waits for a few seconds, and has left when nobody decided for so long."""


def is_left(session: Session, *, now_us: int) -> bool:
    """Whether nobody waits any more for what this asks for, so that it would hold devices for nobody."""
    return session.is_outside and now_us - session.queued_us > WAITED_US_MAX


def end(draft: Draft, session: Session, evidence: EndEvidence, *, now_us: int) -> Session:
    """Give everything back, and end the session, unless that was done before."""
    what, failure = _ENDS[evidence]
    ended = draft.put(transitions.end_outside(session, failure, now_us=now_us), what)
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


def end_on(draft: Draft, agent_id: AgentId, sessions: Iterable[SessionId], *, now_us: int) -> None:
    """End those of these sessions that hold something on an agent which is lost, and given up by an operator."""
    for session_id in sessions:
        session = draft.session(session_id)
        is_there = any(lease.agent_id == agent_id for lease in draft.leases_outside(session_id))
        if session is not None and session.state is SessionState.RUNNING and is_there:
            end(draft, session, EndEvidence.OPERATOR, now_us=now_us)


_ENDS: Final[Mapping[EndEvidence, tuple[str, Failure | None]]] = {
    EndEvidence.GIVEN_BACK: ("completed", None),
    EndEvidence.EXPIRED: (
        "expired",
        Failure(code="lease_expired", message="its time was over, and nobody had called again for it"),
    ),
    EndEvidence.OPERATOR: (
        "failed",
        Failure(code="agent_lost", message="its agent was lost, and an operator said that its processes are gone"),
    ),
}
