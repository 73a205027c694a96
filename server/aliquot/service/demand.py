"""Demand: what the sessions in memory ask for, and whom those that wait depend on."""

from collections import Counter
from collections.abc import Iterable

from aliquot.core.snapshot import Request, request_of
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import HELD_BY_ARRAY, Session


def tasks_waiting(session: Session) -> int:
    """How many tasks of it wait: 1, or as many as its array has waiting; one that its array holds back counts there."""
    return int(session.held_by != HELD_BY_ARRAY) if session.tasks is None else len(session.tasks.waiting)


class Demand:
    """Counts, kept as sessions come and go."""

    def __init__(self) -> None:
        self.asked: Counter[Request] = Counter()
        """How often each request was made; a session counts by what it asks for now, which a fallback changes."""
        self._waited_for: Counter[SessionId] = Counter()

    def ask(self, session: Session, *, before: Session | None) -> None:
        """A session is new, or another version of `before`."""
        request = request_of(session)
        if before is not None and request_of(before) != request:
            self.forget(before)
            before = None
        if before is None:
            self.asked[request] += 1

    def forget(self, session: Session) -> None:
        """A session is no longer in memory."""
        request = request_of(session)
        self.asked[request] -= 1
        if not self.asked[request]:
            del self.asked[request]

    def wait(self, session: Session) -> None:
        """A session waits, and so for those that it depends on."""
        if session.spec.depends_on:
            self._waited_for.update(link.session_id for link in session.spec.depends_on)

    def wait_no_more(self, session: Session) -> None:
        """It waits no more, for nobody."""
        if not session.spec.depends_on:
            return
        self._waited_for.subtract(link.session_id for link in session.spec.depends_on)
        for link in session.spec.depends_on:
            if not self._waited_for[link.session_id]:
                del self._waited_for[link.session_id]

    def is_waited_for(self, session_id: SessionId) -> bool:
        """Whether a session that waits depends on this one, so that it is kept in memory after its end."""
        return self._waited_for[session_id] > 0

    def waited_for(self) -> Iterable[SessionId]:
        """Sessions that pending ones depend on."""
        return self._waited_for.keys()
