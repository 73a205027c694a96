"""Notice rules and the conditions that they find. A rule changed at run time wins over the settings."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core.prediction import OVERLONG_PCT, OVERLONG_RUNS
from aliquot.service.state.alerts import AlertIndex
from aliquot_schema.alerts import AlertRule, NoticeRule, Severity
from aliquot_schema.billing import WARNED_PCT
from aliquot_schema.ids import UserId

FLOOR: Final = 20
HOUR_S: Final = 3600
TWINS_MIN: Final = 4
"""With fewer, one cannot tell which of them is the unusual one."""

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
        (AlertRule.RESULTS_NOT_COPIED, 0, 0, 120, Severity.WARNING),
        (AlertRule.IDLE_BEHIND_QUOTAS, 0, 0, 900, Severity.WARNING),
        (AlertRule.GPU_IDLE, HOUR_S // 2, 0, 0, Severity.WARNING),
        (AlertRule.BUDGET_SPENT, WARNED_PCT, 0, 0, Severity.WARNING),
        (AlertRule.SESSION_OVERLONG, OVERLONG_PCT, OVERLONG_RUNS, 0, Severity.INFO),
        (AlertRule.USE_DROPPED, HOUR_S // 4, 0, 0, Severity.WARNING),
        (AlertRule.SLOW_TWIN, 50, TWINS_MIN, 600, Severity.INFO),
        (AlertRule.LEADER_CHANGED, 600, 0, 0, Severity.INFO),
        (AlertRule.NO_LEADER, 0, 0, 60, Severity.CRITICAL),
        (AlertRule.CLOCK_CORRECTED, HOUR_S, 0, 0, Severity.WARNING),
        (AlertRule.RAY_DISCONNECTED, 0, 0, 10, Severity.CRITICAL),
    )
}
"""Rules without settings and without changes at run time."""


def mute_id(rule: AlertRule) -> str:
    """Id of the record that mutes a rule. It is separate, so that muting does not override the settings of the rule."""
    return f"mute:{rule.value}"


class AlertCondition(Struct, frozen=True, kw_only=True):
    """A condition that holds now: its subject, a message, and the owners of the sessions concerned."""

    subject: str
    words: str
    owners: tuple[UserId, ...] = field(default=())


class Rules:
    """The rules in force."""

    def __init__(self, noticed: AlertIndex, settings: Mapping[AlertRule, NoticeRule] = DEFAULTS) -> None:
        self._noticed = noticed
        self._settings = settings

    def of(self, rule: AlertRule) -> NoticeRule:
        """One rule, as it is now."""
        known = self._noticed.rules
        mute, found = known.get(mute_id(rule)), known.get(rule.value) or self._settings[rule]
        return found if mute is None else replace(found, muted_until_us=mute.muted_until_us)

    def all(self) -> tuple[NoticeRule, ...]:
        """All rules, in the order of `AlertRule`."""
        return tuple(self.of(rule) for rule in AlertRule)
