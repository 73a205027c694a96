"""Idle sessions: records the steps for sessions that do not use their GPUs, and ends them where the policy says so."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.idle_process import CLOSED, IdleCase, kept
from aliquot.core.model.plan import Eviction
from aliquot.service.state.idle_cases import action_of, case_of
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.sessions import Failure, PreemptionCause, Session
from aliquot_schema.states import SessionState

IDLE: Final = "idle"
"""Code of the failure of a session that was ended because it did not use its GPUs."""


def record(draft: UnitOfWork, case: IdleCase, *, name: str, owner: str, words: str) -> None:
    """Write a step; repeated ones are ignored, as an attempt that was reported as failed may have been committed."""
    known = draft.action(name)
    if known is None or case_of(known) != case:
        draft.put(action_of(case, name=name, owner=owner, words=words), f"idle_{case.step}")


def open_case(draft: UnitOfWork, session_id: SessionId) -> tuple[str, IdleCase] | None:
    """The name of a session's record and its case, if it is open."""
    action = draft.idle_action(session_id)
    case = None if action is None else case_of(action)
    return None if action is None or case is None or case.step in CLOSED else (action.id, case)


def keep(draft: UnitOfWork, session: Session, *, now_us: int) -> bool:
    """Note that a session is still needed; returns whether it had an open case."""
    found = open_case(draft, session.id)
    if found is None:
        return False
    name, case = found
    later = kept(case, draft.policy().preemption.idle, now_us=now_us)
    record(draft, later, name=name, owner=session.owner, words=f"still needed by {session.owner}")
    return True


def still_due(draft: UnitOfWork, evictions: Sequence[Eviction]) -> Sequence[Eviction]:
    """Leave out the idle evictions for a waiting session if one of them is no longer due: the others would not free
    enough GPUs."""
    gone = {one.by_session for one in evictions if one.cause is PreemptionCause.IDLE and _due_case(draft, one) is None}
    return [one for one in evictions if one.cause is not PreemptionCause.IDLE or one.by_session not in gone]


def _due_case(draft: UnitOfWork, eviction: Eviction) -> tuple[str, IdleCase] | None:
    """As `open_case`, if the session still runs as the pass saw it and is due."""
    found, session = open_case(draft, eviction.session_id), draft.session(eviction.session_id)
    if found is None or session is None or not found[1].is_due or found[1].attempt != session.attempt:
        return None
    return found if session.version == eviction.version and session.state is SessionState.RUNNING else None


def act(draft: UnitOfWork, session: Session, eviction: Eviction, *, now_us: int) -> None:
    """Record for whom an idle session leaves. It is due."""
    found = _due_case(draft, eviction)
    assert found is not None
    name, case = found
    done = replace(
        case, step=IdleStep.ACTED, step_us=now_us, by_session=eviction.by_session, by_user=str(eviction.by_user)
    )
    what = "ended" if eviction.ends else "preempted"
    words = f"{what} for {eviction.by_session} of {eviction.by_user}: it {case.words()}"
    record(draft, done, name=name, owner=session.owner, words=words)


def idle_failure(draft: UnitOfWork, session: Session) -> Failure | None:
    """Why a session that left because it did not use its GPUs is not queued again; None = it is."""
    if session.preemption is None or session.preemption.cause is not PreemptionCause.IDLE:
        return None
    action = draft.idle_action(session.id)
    case = None if action is None else case_of(action)
    if case is None or case.attempt != session.attempt or case.action is not IdleAction.END:
        return None
    return Failure(code=IDLE, message=f"it {case.words()}, and {case.by_session} of {case.by_user} waited for them")
