"""Rules: when alerts open, as somebody said last, else as the settings say."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aliquot.service.noticed import Noticed
from aliquot_schema.notices import AlertRule, NoticeRule, Severity

FLOOR: Final = 20
HOUR_S: Final = 3600

DEFAULTS: Final[Mapping[AlertRule, NoticeRule]] = {
    rule: NoticeRule(id=rule.value, threshold=threshold, floor=floor, for_s=for_s, severity=severity)
    for rule, threshold, floor, for_s, severity in (
        (AlertRule.QUEUE_BACKLOG, 200, 0, 600, Severity.WARNING),
        (AlertRule.LONG_WAIT, 24 * HOUR_S, 0, 0, Severity.WARNING),
        (AlertRule.AGENT_LOST, 0, 0, 0, Severity.CRITICAL),
        (AlertRule.DEVICE_UNHEALTHY, 0, 0, 0, Severity.CRITICAL),
        (AlertRule.EXTERNAL_PROCESS, 0, 0, 60, Severity.WARNING),
        (AlertRule.FAILURE_RATE, 50, FLOOR, 0, Severity.WARNING),
        (AlertRule.DISK_LOW, 0, 0, 30, Severity.CRITICAL),
        (AlertRule.LEADER_CHANGED, 600, 0, 0, Severity.INFO),
        (AlertRule.NO_LEADER, 0, 0, 60, Severity.CRITICAL),
    )
}
"""Where neither settings nor anybody says otherwise."""


def mute_id(rule: AlertRule) -> str:
    """Under which it is kept until when a rule is muted: so who mutes a rule says nothing else about it, and the rest
    of it stays as the settings say."""
    return f"mute:{rule.value}"


class Rules:
    """All of them."""

    def __init__(self, noticed: Noticed, settings: Mapping[AlertRule, NoticeRule] = DEFAULTS) -> None:
        self._noticed = noticed
        self._settings = settings

    def of(self, rule: AlertRule) -> NoticeRule:
        """As it is now."""
        known = self._noticed.rules
        mute, found = known.get(mute_id(rule)), known.get(rule.value) or self._settings[rule]
        return found if mute is None else replace(found, muted_until_us=mute.muted_until_us)

    def all(self) -> tuple[NoticeRule, ...]:
        """In the order of `AlertRule`."""
        return tuple(self.of(rule) for rule in AlertRule)
