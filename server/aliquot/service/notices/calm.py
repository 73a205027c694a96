"""Calm: for how long a condition has to be over, so that what comes and goes is one alert."""

from typing import Final

from aliquot.service.notices.terms import SECOND_US
from aliquot_schema.notices import Alert, AlertRule, NoticeRule

CALM_S_MIN: Final = 30
CALM_S_MAX: Final = 600
AGAIN_US: Final = 3600 * SECOND_US
"""What comes back within this time after its end is the same trouble."""

Key = tuple[AlertRule, str]


class Calm:
    """As long as the condition has to hold, and twice as long each time when it came back soon, within bounds. How
    often it did is in memory alone."""

    def __init__(self) -> None:
        self._closed: dict[Key, tuple[int, int]] = {}
        """When the last alert was closed, and how often it had come back by then."""

    def needed_us(self, alert: Alert, rule: NoticeRule) -> int:
        """For how long an alert's condition has to be over."""
        usual_s = min(max(rule.for_s, CALM_S_MIN), CALM_S_MAX)
        return min(usual_s << self._returns(alert), CALM_S_MAX) * SECOND_US

    def note_closed(self, alert: Alert, *, now_us: int) -> None:
        """It is over for good, or so it seems."""
        returns = self._returns(alert)
        self._closed = {key: known for key, known in self._closed.items() if now_us - known[0] < AGAIN_US}
        self._closed[alert.rule, alert.subject] = now_us, returns

    def _returns(self, alert: Alert) -> int:
        known = self._closed.get((alert.rule, alert.subject))
        return 0 if known is None or alert.opened_us - known[0] >= AGAIN_US else min(known[1] + 1, 10)
