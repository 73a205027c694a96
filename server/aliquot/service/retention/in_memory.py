"""Which sessions that have ended stay in memory."""

from collections import Counter
from collections.abc import Callable

from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session


class Retention:
    """Keeps the newest, and those that somebody needs."""

    def __init__(self, most: int) -> None:
        self.kept: Counter[SessionId] = Counter()
        """Sessions that somebody is about to change, and how many do."""
        self._ended: dict[SessionId, None] = {}
        self.most = most

    def note(self, session: Session) -> None:
        """A session was put into memory."""
        self._ended.pop(session.id, None)
        if session.is_ended:
            self._ended[session.id] = None

    def drop(self, session_id: SessionId) -> None:
        """It is to be forgotten now; it is not kept track of any more."""
        self._ended.pop(session_id, None)

    def surplus(self, is_needed: Callable[[SessionId], bool]) -> list[SessionId]:
        """Those that are to be forgotten, the oldest first; they are not kept track of any more."""
        found: list[SessionId] = []
        while len(self._ended) > self.most:
            oldest = next((known for known in self._ended if known not in self.kept and not is_needed(known)), None)
            if oldest is None:
                break
            del self._ended[oldest]
            found.append(oldest)
        return found
