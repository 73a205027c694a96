"""Preemption: asks a running session to checkpoint and exit, and stops it when its grace period is over."""

from aliquot.core.transitions import preempt, unstopped
from aliquot.service.lifecycle.kernel_reports import stop_kernels
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.ids import SessionId, UserId
from aliquot_schema.sessions import PreemptionCause, PreemptionReceipt, Session


def evict(
    draft: UnitOfWork,
    session: Session,
    *,
    cause: PreemptionCause,
    by_session: SessionId | None,
    by_user: UserId,
    now_us: int,
    grace_ms: int | None = None,
) -> Session:
    """Preempt a running session; returns it.

    With a checkpoint signal: the signal is sent now (again after a reconnect of its agent or a change of leader), and
    `stop_overdue` stops the session at the end of its grace period. Without one: its kernels are stopped now, and
    killed at the end of the grace period.

    Args:
        grace_ms: grace period; None = the session's, or else the policy's.
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


def stop_overdue(draft: UnitOfWork, session: Session, *, now_us: int) -> None:
    """Stop the remaining kernels of a session whose grace period is over."""
    stop_kernels(draft, unstopped(draft.kernels_in(session)), now_us=now_us)
