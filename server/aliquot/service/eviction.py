"""Eviction: sessions that are asked to make room, told so, and stopped when their grace is over."""

from aliquot.core.leaving import preempt, unstopped
from aliquot.service.draft import Draft
from aliquot.service.kernel_reports import stop_kernels
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import PreemptionCause, PreemptionReceipt, Session


def evict(
    draft: Draft,
    session: Session,
    *,
    cause: PreemptionCause,
    by_session: SessionId | None,
    by_user: UserId,
    now_us: int,
    grace_ms: int | None = None,
) -> Session:
    """Ask a session that runs to make room.

    It gets its checkpoint signal now (twice, when its agent or a server comes back meanwhile), and is stopped when
    its grace is over (`stop_overdue`); one without such a signal is told to stop now, and made to at the end of the
    grace.

    Args:
        grace_ms: None = the session's own, else the policy's.
    """
    if grace_ms is None:
        grace_ms = session.spec.grace_ms
    if grace_ms is None:
        grace_ms = draft.policy().preemption.grace_ms
    receipt = PreemptionReceipt(
        cause=cause, by_session=by_session, by_user=by_user, at_us=now_us, until_us=now_us + grace_ms * 1000
    )
    asked = draft.put(preempt(session, receipt), "preempting")
    if session.spec.checkpoint_signal is None:
        stop_kernels(draft, unstopped(draft.kernels_in(asked)), now_us=now_us)
    return asked


def stop_overdue(draft: Draft, session: Session, *, now_us: int) -> None:
    """The grace of a session is over: what is left of it is told to stop."""
    stop_kernels(draft, unstopped(draft.kernels_in(session)), now_us=now_us)
