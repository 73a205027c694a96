"""Steps of a session: each move of it that was committed, as far back as the log is kept."""

from operator import attrgetter
from typing import Final

from aliquot.service.ports import Store
from aliquot.service.projection_terms import moment, preemption_view
from aliquot.service.reels import number_before, reel_of
from aliquot_schema.audit_views import Reel
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.requests import PageRequest
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState
from aliquot_schema.step_views import SessionStepView

KINDS: Final = tuple(
    f"session.{what}" for what in (*map(str, SessionState), "released", "requeued", "retried", "expired")
)
"""Events that may move a session; others tell of its priority, its tasks and the like."""


async def steps_of(store: Store, session_id: SessionId, page: PageRequest) -> Reel[SessionStepView]:
    """The newest first. All that they tell of is everybody's to see."""
    found = await store.session_steps(session_id, kinds=KINDS, before=number_before(page), limit=page.first + 1)
    return reel_of(found, page, number=attrgetter("number"), show=_step_view)


def _step_view(event: Event) -> SessionStepView:
    session = event.record
    assert isinstance(session, Session), f"{event.number} is of no session"
    receipt = session.preemption
    return SessionStepView(
        number=event.number,
        at=moment(event.at_us),
        kind=event.kind,
        state=session.state,
        attempt=session.attempt,
        held_by=session.held_by,
        preemption=None if receipt is None else preemption_view(receipt),
    )
