"""Promises: how many of those that passes made to waiting sessions were kept.

A session that is promised a start holds a reservation from the first pass that says so until it starts, or until no
pass promises it anything any more: then somebody more urgent came, or it was changed, held or cancelled.
"""

from collections.abc import Mapping
from typing import Final

from aliquot.service.measuring.tallies import Tally
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Session

SLACK_US: Final = 5_000_000
"""A promise counts from when devices are free; to notice that, to decide and to commit takes a moment."""


class Promises:
    """Reservations made, and what became of them. As many are open as the last pass promised."""

    def __init__(self) -> None:
        self.made = Tally()
        self.ended = Tally("outcome")
        """`kept`, `late`, or `withdrawn`."""
        self.made.begin()
        for outcome in ("kept", "late", "withdrawn"):
            self.ended.begin(outcome)
        self._open: dict[SessionId, int] = {}
        """The first time that each was promised, microseconds UTC."""

    def note(self, promised_us: Mapping[SessionId, int]) -> None:
        """A pass has promised these, and nobody else."""
        for session_id in [name for name in self._open if name not in promised_us]:
            del self._open[session_id]
            self.ended.add("withdrawn")
        for session_id, at_us in promised_us.items():
            if session_id not in self._open:
                self._open[session_id] = at_us
                self.made.add()

    def start(self, session: Session) -> None:
        """A session was given its devices."""
        promised_us = self._open.pop(session.id, None)
        if promised_us is not None and session.scheduled_us is not None:
            self.ended.add("kept" if session.scheduled_us <= promised_us + SLACK_US else "late")

    def forget(self) -> None:
        """Another server goes on with them."""
        self._open.clear()
