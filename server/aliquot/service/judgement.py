"""Judgement: what the last pass said of those that wait. Not durable."""

from collections.abc import Mapping

from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Verdict


class Judgement:
    """Verdicts and places in the queue."""

    def __init__(self) -> None:
        self.verdicts: Mapping[SessionId, Verdict] = {}
        """In queue order."""
        self.promised_us: Mapping[SessionId, int] = {}
        self._positions: dict[SessionId, int] = {}

    def judge(self, verdicts: Mapping[SessionId, Verdict], *, promised_us: Mapping[SessionId, int]) -> None:
        """Remember why each session waits, in which order they are looked at, and who is promised which time."""
        self.verdicts = verdicts
        self.promised_us = promised_us
        self._positions = dict(zip(verdicts, range(1, len(verdicts) + 1), strict=True))

    def position(self, session_id: SessionId) -> int | None:
        """The place that the pass gave a session, from 1; None when it did not see it."""
        return self._positions.get(session_id)
