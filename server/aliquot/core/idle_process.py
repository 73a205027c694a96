"""Idle process: the steps before a session that does not use its GPUs loses them.

Its owner is told, told again, and then the session is due: the next pass preempts or ends it if a waiting session
starts for it (`scheduler.idle_evictions`). Each step needs idle time that was measured since the one before; use at any
time, or the owner's "still needed", stops the steps. Missing readings are not idle time, so they delay a step.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from aliquot_schema.ids import SessionId
from aliquot_schema.policies import IdleAction, IdleRules, IdleStep
from aliquot_schema.resources.units import format_duration

SECOND_US: Final = 1_000_000
LAG_US: Final = 300 * SECOND_US
"""Readings may come this late without counting as a new spell."""
ACTS: Final = frozenset({IdleAction.PREEMPT, IdleAction.END})
"""Actions that take the GPUs away."""
CLOSED: Final = frozenset({IdleStep.ACTED, IdleStep.OVER})


class IdleObservation(Struct, frozen=True, kw_only=True):
    """What the readings of all GPUs of a session show."""

    gpus: tuple[str, ...]
    """Their names."""
    idle_us: int
    """Measured idle time of the GPU that was idle for the shortest time; 0 = one was used at its last reading."""
    spell_us: int
    """Time since the first reading of that spell, with gaps."""
    was_used: bool
    """Whether any of them was used since they were granted."""
    is_used: bool
    """Whether one was used at its last reading."""


class IdleCase(Struct, frozen=True, kw_only=True):
    """The evidence and the last step of one attempt of a session. Times are microseconds UTC."""

    session_id: SessionId
    attempt: int
    action: IdleAction
    step: IdleStep
    gpus: tuple[str, ...]
    idle_us: int
    """Measured idle time at the step."""
    was_used: bool
    step_us: int
    """When the step was taken."""
    next_us: int | None = None
    """When the next step is due at the earliest; None = there is none."""
    by_session: SessionId | None = None
    """`acted`: the waiting session that starts for it."""
    by_user: str = ""

    @property
    def is_open(self) -> bool:
        """Whether further steps may follow."""
        return self.step not in CLOSED

    @property
    def is_due(self) -> bool:
        """Whether the next pass may take its GPUs away."""
        return self.step is IdleStep.DUE and self.action in ACTS

    def words(self) -> str:
        """The evidence, as a clause without subject: "has not used its 2 GPUs for 95 min"."""
        gpus = "its GPU" if len(self.gpus) == 1 else f"its {len(self.gpus)} GPUs"
        since = "" if self.was_used else ", nor at any time since it started"
        return f"has not used {gpus} for {idle_text(self.idle_us)}{since}"

    def as_facts(self) -> dict[str, Any]:
        """The case as plain values, for the event log."""
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "IdleCase":
        """The case of stored values."""
        words = {"action": IdleAction(facts["action"]), "step": IdleStep(facts["step"]), "gpus": tuple(facts["gpus"])}
        return cls(**{**facts, **words})


def idle_text(idle_us: int) -> str:
    """`1h35m`: whole minutes."""
    return format_duration(max(idle_us // (60 * SECOND_US), 1) * 60)


def next_case(
    known: IdleCase | None,
    seen: IdleObservation | None,
    *,
    session_id: SessionId,
    attempt: int,
    action: IdleAction,
    rules: IdleRules,
    now_us: int,
) -> IdleCase | None:
    """The next step of a running session; None = no step is due.

    Args:
        known: its case so far, also of an earlier attempt.
        seen: what readings show now; None = nothing, or not of all its GPUs.
        action: what the policy says of its pool and project.
        now_us: microseconds UTC.
    """
    current = known if known is not None and known.attempt == attempt and known.is_open else None
    if current is None:
        if action is IdleAction.OFF or seen is None or seen.idle_us < rules.tell_ms * 1000 or seen.is_used:
            return None
        if known is not None and known.attempt == attempt and known.step is IdleStep.ACTED:
            return None
        case = IdleCase(
            session_id=session_id,
            attempt=attempt,
            action=action,
            step=IdleStep.TOLD,
            gpus=seen.gpus,
            idle_us=seen.idle_us,
            was_used=seen.was_used,
            step_us=now_us,
        )
        return replace(case, next_us=now_us + rules.again_ms * 1000)
    if action is not current.action or (seen is not None and _was_used_since(current, seen, now_us=now_us)):
        return replace(current, step=IdleStep.OVER, step_us=now_us, next_us=None)
    if seen is None or current.next_us is None or now_us < current.next_us:
        return None
    return _stepped(current, seen, rules, now_us=now_us)


def kept(case: IdleCase, rules: IdleRules, *, now_us: int) -> IdleCase:
    """The case after its owner has said that the session is still needed."""
    return replace(case, step=IdleStep.KEPT, step_us=now_us, next_us=now_us + rules.keep_ms * 1000)


def acts_us(case: IdleCase, rules: IdleRules) -> int | None:
    """From when on a session may lose its GPUs; None = it does not, as long as nothing changes."""
    if case.action not in ACTS or not case.is_open:
        return None
    later_ms = {
        IdleStep.TOLD: rules.again_ms + rules.act_ms,
        IdleStep.TOLD_AGAIN: rules.act_ms,
        IdleStep.KEPT: rules.keep_ms + rules.again_ms + rules.act_ms,
    }.get(case.step, 0)
    return case.step_us + later_ms * 1000


def _stepped(case: IdleCase, seen: IdleObservation, rules: IdleRules, *, now_us: int) -> IdleCase | None:
    """The case one step further, if as much idle time was measured as the step needs."""
    needed_ms, step, wait_ms = {
        IdleStep.TOLD: (rules.again_ms, IdleStep.TOLD_AGAIN, rules.act_ms),
        IdleStep.TOLD_AGAIN: (rules.act_ms, IdleStep.DUE, None),
        IdleStep.KEPT: (rules.tell_ms, IdleStep.TOLD, rules.again_ms),
    }[case.step]
    if seen.idle_us < needed_ms * 1000:
        return None
    if step is IdleStep.DUE and case.action is IdleAction.TELL:
        return None
    next_us = None if wait_ms is None else now_us + wait_ms * 1000
    return replace(
        case,
        step=step,
        step_us=now_us,
        next_us=next_us,
        gpus=seen.gpus,
        idle_us=seen.idle_us,
        was_used=seen.was_used,
    )


def _was_used_since(case: IdleCase, seen: IdleObservation, *, now_us: int) -> bool:
    """Whether a GPU was used since the last step. A detector that began anew, on another leader, shows no use."""
    if seen.is_used:
        return True
    since_us = now_us - case.step_us
    return case.step is not IdleStep.KEPT and seen.was_used and seen.spell_us + LAG_US < since_us
