"""Saved work: what a session's acknowledged checkpoints keep, what a requeue loses, and what its owner is credited.

Used and lost work count milli of a device x milliseconds, as `fairshare` does.
"""

from typing import NamedTuple

from msgspec.structs import replace

from aliquot_schema.ids import AgentId
from aliquot_schema.sessions import SavedWork, Session

NOTHING = SavedWork()


class AttemptLoss(NamedTuple):
    """What a requeue costs a session."""

    lost: int
    """Work since the last acknowledged checkpoint."""
    credited: int
    """Part of it that the owner is not charged for."""
    credited_run_ms: int
    """Run time in which that part was used."""


def began(
    work: SavedWork | None, *, attempt: int, resumed_ms: int, note: str | None, milli: int, now_us: int
) -> SavedWork | None:
    """The record once an attempt is known to have started from a checkpoint that holds `resumed_ms` of work.

    Args:
        milli: rate of what the attempt holds. Work that a smaller checkpoint lacks is lost, and credited, at this rate.
    """
    known = work or NOTHING
    if known.attempt >= attempt or not (resumed_ms or known.kept_ms or known.saved_us):
        return work
    missing_ms = max(known.kept_ms - resumed_ms, 0)
    return replace(
        known,
        kept_ms=resumed_ms,
        saved_us=known.saved_us or now_us,
        attempt=attempt,
        began_ms=resumed_ms,
        note=note,
        lost_ms=known.lost_ms + missing_ms * milli,
        credited_ms=known.credited_ms + missing_ms * milli,
        credited_run_ms=known.credited_run_ms + missing_ms,
    )


def saved(work: SavedWork | None, *, attempt: int, saved_ms: int, agent_id: AgentId, now_us: int) -> SavedWork | None:
    """The record once an attempt has acknowledged a checkpoint; the same record if it is known or older."""
    known = work or NOTHING
    if known.attempt > attempt or (known.attempt == attempt and saved_ms <= known.kept_ms):
        return work
    began_ms = known.began_ms if known.attempt == attempt else known.kept_ms
    return replace(
        known, kept_ms=saved_ms, saved_us=now_us, agent_id=agent_id, attempt=attempt, began_ms=min(began_ms, saved_ms)
    )


def saved_ms(session: Session) -> int:
    """Run time of the present attempt whose work its last acknowledged checkpoint holds."""
    work = session.work
    return 0 if work is None or work.attempt != session.attempt else work.kept_ms - work.began_ms


def acknowledges(session: Session) -> bool:
    """Whether it promised to acknowledge checkpoints, or has acknowledged one."""
    promised = session.spec.checkpoint_every_ms is not None
    return promised or (session.work is not None and session.work.saved_us is not None)


def saved_since_preempted(session: Session) -> bool:
    """Whether a preempted session has acknowledged a checkpoint since it was asked to leave."""
    if session.preemption is None or session.started_us is None or not saved_ms(session):
        return False
    return session.started_us + saved_ms(session) * 1000 >= session.preemption.at_us


def loss(session: Session, *, used: int, ran_ms: int, grace_ms: int, is_own_fault: bool) -> AttemptLoss:
    """Loss of an attempt that ended and will be run again.

    The owner is credited for what the cluster took: not for failures of the job, not beyond the interval that the
    session promised (and the grace), and not if it was asked to save its work and never said that it did.

    Args:
        used: by the attempt.
        ran_ms: how long it held its devices.
        grace_ms: of the policy, for sessions without their own.
    """
    lost_ms = max(ran_ms - saved_ms(session), 0)
    lost = used * lost_ms // ran_ms if ran_ms else used
    is_silent = session.spec.checkpoint_signal is not None and not acknowledges(session)
    if is_own_fault or is_silent or not lost_ms:
        return AttemptLoss(lost, 0, 0)
    every_ms, own_ms = session.spec.checkpoint_every_ms, session.spec.grace_ms
    credited_ms = lost_ms
    if every_ms is not None:
        credited_ms = min(lost_ms, every_ms + (grace_ms if own_ms is None else own_ms))
    return AttemptLoss(lost, lost * credited_ms // lost_ms, credited_ms)


def after_loss(session: Session, found: AttemptLoss) -> SavedWork:
    """The record of a session after a requeue."""
    work = session.work or NOTHING
    return replace(
        work,
        lost_ms=work.lost_ms + found.lost,
        credited_ms=work.credited_ms + found.credited,
        credited_run_ms=work.credited_run_ms + found.credited_run_ms,
    )


def without_checkpoint(work: SavedWork | None) -> SavedWork | None:
    """The record of a session that is run again without regard to its checkpoint; what it lost stays counted."""
    return None if work is None else replace(work, kept_ms=0, saved_us=None, agent_id=None, began_ms=0, note=None)
