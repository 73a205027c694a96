"""Leaving: a session is asked to make room, and either ends within its grace or is queued again."""

from collections.abc import Sequence
from dataclasses import replace

from aliquot.core.transitions import can_move, first_failed
from aliquot_schema.leases import Kernel
from aliquot_schema.sessions import PreemptionReceipt, Session
from aliquot_schema.states import KernelState, SessionState


def preempt(session: Session, receipt: PreemptionReceipt) -> Session:
    """Ask it to make room; it runs on until it ends, or its grace does."""
    assert can_move(session, SessionState.PREEMPTING), f"{session.id} is {session.state}"
    return replace(session, state=SessionState.PREEMPTING, preemption=receipt)


def made_room(session: Session, *, lost: int) -> Session:
    """It was stopped, and waits again in its old place. That costs it none of its tries.

    Args:
        lost: milli of a device x milliseconds that its attempt had used.
    """
    assert session.state is SessionState.PREEMPTING, f"{session.id} is {session.state}"
    assert session.preemption is not None, f"{session.id} was asked by nobody"
    return replace(
        session,
        state=SessionState.QUEUED,
        preemptions=session.preemptions + 1,
        preemption=replace(session.preemption, lost_ms=lost),
        scheduled_us=None,
        started_us=None,
    )


def ended_by_itself(session: Session, kernels: Sequence[Kernel]) -> bool:
    """Whether a session that was asked to make room came to an end of its own instead.

    It did when all went well, at its time limit, and when it exited before it was told to stop. One that had a
    checkpoint signal and was ended by a signal was ended by that one; without one, the stop came first of all.

    Args:
        kernels: of its attempt, all exited.
    """
    failed = first_failed(kernels)
    if failed is None or failed.timed_out:
        return True
    assert session.preemption is not None, f"{session.id} was asked by nobody"
    stop_us = session.preemption.until_us if session.spec.checkpoint_signal is not None else session.preemption.at_us
    was_told = failed.ended_us is None or failed.ended_us >= stop_us
    return failed.exit_code is not None and not was_told


def is_overdue(session: Session, *, now_us: int) -> bool:
    """Whether its grace is over."""
    leaves = session.state is SessionState.PREEMPTING and session.preemption is not None
    return leaves and session.preemption is not None and session.preemption.until_us <= now_us


def unstopped(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Those that nobody has told to stop."""
    return [kernel for kernel in kernels if kernel.state not in (KernelState.EXITED, KernelState.STOPPING)]
