"""Samples of the queue: how long it is, and what went through it, told from the events of sessions."""

from collections.abc import Callable
from typing import Final

from aliquot.service.history.samples import QueueSample
from aliquot.service.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

RUNNING: Final = frozenset({SessionState.RUNNING, SessionState.PREEMPTING})
SCHEDULED: Final = "session.scheduled"


class QueueSampling:
    """Counts what happens between two samples. Work that is run outside does not wait, and is not counted."""

    def __init__(self, state: State, *, take: Callable[[QueueSample], None]) -> None:
        self._state = state
        self._take = take
        self._running: dict[SessionId, None] = dict.fromkeys(
            session.id for session in state.sessions.values() if _is_running(session)
        )
        self._submitted = self._started = self._ended = 0
        self._waited_s = 0.0

    def hear(self, event: Event) -> None:
        """An event is in the state."""
        session = event.record
        if not isinstance(session, Session) or session.is_outside:
            return
        if session.version == 1 and session.array_id is None:
            self._submitted += 1 if session.tasks is None else len(session.tasks.waiting)
        if session.tasks is not None:
            return
        if event.kind == SCHEDULED and session.scheduled_us is not None:
            self._started += 1
            self._waited_s += max(0, session.scheduled_us - session.queued_us) / 1e6
        if session.is_ended:
            self._ended += 1
        if _is_running(session):
            self._running[session.id] = None
        else:
            self._running.pop(session.id, None)

    def sample(self, now_us: int) -> None:
        """Hand over what there is, and count from nothing again."""
        self._take(
            QueueSample(
                at_us=now_us,
                pending=self._state.tasks_pending,
                running=len(self._running),
                submitted=self._submitted,
                started=self._started,
                ended=self._ended,
                waited_s=self._waited_s,
            )
        )
        self._submitted = self._started = self._ended = 0
        self._waited_s = 0.0


def _is_running(session: Session) -> bool:
    return session.state in RUNNING and session.tasks is None and not session.is_outside
