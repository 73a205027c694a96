"""Facts: what of the log is worth telling, in words."""

from collections.abc import Iterator
from typing import Final

from aliquot.service.notices.routing import Fact
from aliquot.service.notices.rules import Rules
from aliquot.service.notices.terms import SECOND_US, duration, named
from aliquot_schema.events import Event
from aliquot_schema.notices import OWNERS_HEAR, Alert, AlertRule, NoticeKind, Severity
from aliquot_schema.sessions import PreemptionCause, Session

_TOLD_ONCE: Final = frozenset({AlertRule.LEADER_CHANGED})
"""Nobody waits for the end of these."""
_CAUSES: Final = {
    PreemptionCause.PRIORITY: "for a session of a higher priority",
    PreemptionCause.QUOTA: "for the owner of the quota that it ran on",
    PreemptionCause.DRAIN: "because its agent is drained",
    PreemptionCause.DEVICE: "because a device of its is gone",
}


def facts_of(event: Event, rules: Rules) -> Iterator[Fact]:
    """What an event is told as; most are not told."""
    match event.kind, event.record:
        case ("alert.opened" | "alert.reminded" | "alert.closed") as kind, Alert() as alert:
            yield from _of_alert(alert, rules, at_us=event.at_us, is_reminder=kind == "alert.reminded")
        case (("session.failed" | "session.completed" | "session.preempting"), Session() as session):
            if session.array_id is None and not session.is_outside:
                yield _of_session(session, notice_id=f"event:{event.number}")


def _of_alert(alert: Alert, rules: Rules, *, at_us: int, is_reminder: bool) -> Iterator[Fact]:
    rule, is_over = AlertRule(alert.rule), alert.closed_us is not None
    muted_until_us = rules.of(rule).muted_until_us
    if rule is AlertRule.NO_LEADER and not is_over:
        return  # whoever opened it has told it: see `Lookout`
    if (muted_until_us is not None and at_us < muted_until_us) or (is_over and rule in _TOLD_ONCE):
        return
    words = alert.words
    held = duration((at_us - alert.opened_us) // SECOND_US)
    if is_over:
        words = f"over, after {held}: {words}"
    elif is_reminder:
        words = f"still so, for {held}: {words}"
    kind = NoticeKind(rule.value)
    for user in (None, *(alert.owners if kind in OWNERS_HEAR else ())):
        yield Fact(
            kind=kind,
            severity=alert.severity,
            subject=alert.subject,
            words=words,
            notice_id=alert.id,
            user=user,
            is_over=is_over,
        )


def _of_session(session: Session, *, notice_id: str) -> Fact:
    kind, severity, words = _told(session)
    return Fact(kind=kind, severity=severity, subject=session.id, words=words, notice_id=notice_id, user=session.owner)


def _told(session: Session) -> tuple[NoticeKind, Severity, str]:
    name = named(session)
    if session.ended_us is None:
        return NoticeKind.SESSION_PREEMPTED, Severity.INFO, f"{name} is to make room{_cause(session)}"
    if session.failure is None:
        return NoticeKind.SESSION_COMPLETED, Severity.INFO, f"{name} has completed{_ran(session)}"
    ended = f" (exit code {session.exit_code})" if session.exit_code else ""
    words = f"{name} has failed{_ran(session)}: {session.failure.message}{ended}"
    tries = session.spec.max_retries
    if tries and session.retries >= tries:
        return NoticeKind.RETRIES_SPENT, Severity.WARNING, f"{words}; none of its {tries} retries is left"
    return NoticeKind.SESSION_FAILED, Severity.WARNING, words


def _cause(session: Session) -> str:
    receipt = session.preemption
    if receipt is None:
        return ""
    by = f" ({receipt.by_session} of {receipt.by_user})" if receipt.by_session else ""
    return f", {_CAUSES[receipt.cause]}{by}; it is stopped at the end of its grace, and queued again"


def _ran(session: Session) -> str:
    if session.started_us is None or session.ended_us is None:
        return ""
    return f" after {duration((session.ended_us - session.started_us) // SECOND_US)}"
