"""Views of sessions that do not use their GPUs: for their owners, and for those who get the GPUs."""

from typing import TypedDict

from aliquot.core.idle_process import acts_us, idle_text
from aliquot.service.state.state import State
from aliquot.service.views.terms import moment_or_none
from aliquot_schema.alerts import AlertRule
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.views.session_parts import IdleNoticeView


class IdleFields(TypedDict):
    """What a session's view says about unused GPUs."""

    idle: IdleNoticeView | None
    room_made: str | None


def idle_fields(state: State, session: Session) -> IdleFields:
    """The fields of a session's view."""
    return {"idle": idle_view(state, session), "room_made": room_made(state, session)}


def idle_view(state: State, session: Session) -> IdleNoticeView | None:
    """That a running session does not use its GPUs; None if it does. The open case wins over the open alert."""
    if session.state is not SessionState.RUNNING:
        return None
    case = state.idle_cases.of(session.id)
    if case is not None and case.is_open and case.attempt == session.attempt and case.action is not IdleAction.OBSERVE:
        at_us = acts_us(case, state.policy.preemption.idle)
        gpus = "GPU" if len(case.gpus) == 1 else f"{len(case.gpus)} GPUs"
        since = "" if case.was_used else ", nor at any time since it started"
        words = f"It has not used its {gpus} for {idle_text(case.idle_us)}{since}."
        if case.step is IdleStep.KEPT:
            words = f"{words} You stated that it is still needed."
        elif at_us is not None:
            what = "ended" if case.action is IdleAction.END else "preempted and queued again"
            words = f"{words} It is {what} as soon as a waiting session starts for it."
        return IdleNoticeView(action=case.action, step=case.step, message=words, acts_at=moment_or_none(at_us))
    alert = next((one for one in state.alert_index.alerts.values() if _is_about(one.rule, one.subject, session)), None)
    if alert is None:
        return None
    return IdleNoticeView(action=IdleAction.OFF, step=None, message=f"{alert.words}.", acts_at=None)


def _is_about(rule: AlertRule, subject: str, session: Session) -> bool:
    return rule is AlertRule.GPU_IDLE and subject == session.id


def room_made(state: State, session: Session) -> str | None:
    """Which session had to leave for this one, as a sentence."""
    case = state.idle_cases.made_for(session.id)
    if case is None:
        return None
    what = "ended" if case.action is IdleAction.END else "preempted"
    return f"{case.session_id} was {what} for it, because it {case.words()}."
