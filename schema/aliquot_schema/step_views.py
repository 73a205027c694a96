"""Read models of what a session went through."""

from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.states import SessionState
from aliquot_schema.views import PreemptionView


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStepView:
    """One committed move of a session."""

    number: int
    """Of the event."""
    at: datetime
    kind: str
    """`session.queued`, `session.requeued`, ..."""
    state: SessionState
    attempt: int
    """The tries so far, as right after it."""
    held_by: str | None
    preemption: PreemptionView | None
    """As right after it; that of an earlier attempt stays until there is a newer one."""
