"""Alert evaluation: opens an alert once its condition has held for the rule's `for_s`, and closes it with hysteresis.

An alert that recurs within an hour has to be over for twice as long each time, within bounds, so that a flapping
condition is one alert.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from aliquot.service.alerts.conditions import CHECKS, Check
from aliquot.service.alerts.context import AlertContext
from aliquot.service.alerts.message_texts import SECOND_US, printable
from aliquot.service.alerts.rules import AlertCondition, Rules
from aliquot.service.ports import NotLeader, StoreUnavailable
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.alerts import ALERT_PREFIX, Alert, AlertRule, NoticeRule

CLOSE_S_MIN: Final = 30
CLOSE_S_MAX: Final = 600
RECURRENCE_US: Final = 3600 * SECOND_US
"""An alert that opens within this time after it was closed counts as a recurrence."""

Key = tuple[AlertRule, str]

log: Final = logging.getLogger("aliquot.alerts")
ACTOR: Final = "system:alerts"
INTERVAL_S: Final = 5.0


class Hysteresis:
    """For how long a condition has to be over before its alert is closed. Recurrences are counted in memory only."""

    def __init__(self) -> None:
        self._closed: dict[Key, tuple[int, int]] = {}
        """Time of the last closing, and recurrences by then."""

    def needed_us(self, alert: Alert, rule: NoticeRule) -> int:
        """For how long the condition of an alert has to be over."""
        usual_s = min(max(rule.for_s, CLOSE_S_MIN), CLOSE_S_MAX)
        return min(usual_s << self._returns(alert), CLOSE_S_MAX) * SECOND_US

    def note_closed(self, alert: Alert, *, now_us: int) -> None:
        """Record that an alert was closed."""
        returns = self._returns(alert)
        self._closed = {key: known for key, known in self._closed.items() if now_us - known[0] < RECURRENCE_US}
        self._closed[alert.rule, alert.subject] = now_us, returns

    def _returns(self, alert: Alert) -> int:
        known = self._closed.get((alert.rule, alert.subject))
        return 0 if known is None or alert.opened_us - known[0] >= RECURRENCE_US else min(known[1] + 1, 10)


class AlertEvaluator:
    """Evaluates all rules on the leader. How long a condition has held is in memory only: after a failover it counts
    from then, and open alerts stay open."""

    def __init__(
        self,
        context: AlertContext,
        *,
        rules: Rules,
        more: Mapping[AlertRule, Check] | None = None,
        reminder_s: int | None = None,
    ) -> None:
        """
        Args:
            more: checks besides those on the state.
            reminder_s: seconds between reminders of an open alert; None = no reminders.
        """
        self._state, self._journal, self._clock, self._ids = context.state, context.journal, context.clock, context.ids
        self._rules = rules
        self._checks = {**CHECKS, **(more or {})}
        self._reminder_us = None if reminder_s is None else reminder_s * SECOND_US
        self._held_since: dict[Key, int] = {}
        self._over_since: dict[Key, int] = {}
        self._hysteresis = Hysteresis()

    async def run(self) -> None:
        """Evaluate every 5 seconds until canceled."""
        while True:
            try:
                await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("alert rules could not be evaluated; next attempt in %g s", INTERVAL_S)
            await self._clock.sleep(INTERVAL_S)

    async def run_once(self) -> tuple[int, int]:
        """Evaluate once; returns how many alerts were opened and closed."""
        now_us = self._clock.now_us()
        holding = self._holding(now_us)
        open_ = {(AlertRule(alert.rule), alert.subject): alert for alert in self._state.alert_index.alerts.values()}
        opened = [key for key in holding if key not in open_ and self._has_held(key, now_us)]
        closed = [alert for key, alert in open_.items() if self._is_over(key, alert, holding, now_us)]
        reminded = [alert for alert in open_.values() if alert not in closed and self._needs_reminder(alert, now_us)]
        if opened or closed or reminded:
            fresh = [self._alert(key, holding[key], now_us) for key in opened]
            await self._journal.persist(lambda draft: _write(draft, fresh, closed, reminded, now_us), actor=ACTOR)
        for alert in closed:
            self._hysteresis.note_closed(alert, now_us=now_us)
        return len(opened), len(closed)

    def _holding(self, now_us: int) -> dict[Key, AlertCondition]:
        found = dict(self._found(now_us))
        for key in found:
            self._held_since.setdefault(key, now_us)
            self._over_since.pop(key, None)
        for key in [key for key in self._held_since if key not in found]:
            del self._held_since[key]
        return found

    def _found(self, now_us: int) -> Iterator[tuple[Key, AlertCondition]]:
        for name, check in self._checks.items():
            rule = self._rules.of(name)
            for condition in check(self._state, rule, now_us) if rule.is_on else ():
                yield (name, condition.subject), condition

    def _has_held(self, key: Key, now_us: int) -> bool:
        return now_us - self._held_since[key] >= self._rules.of(key[0]).for_s * SECOND_US

    def _is_over(self, key: Key, alert: Alert, holding: Mapping[Key, AlertCondition], now_us: int) -> bool:
        if key[0] not in self._checks:
            return False  # a check of another server closes it
        rule = self._rules.of(key[0])
        if key in holding:
            return False
        since_us = self._over_since.setdefault(key, now_us)
        is_over = not rule.is_on or now_us - since_us >= self._hysteresis.needed_us(alert, rule)
        if is_over:
            del self._over_since[key]
        return is_over

    def _needs_reminder(self, alert: Alert, now_us: int) -> bool:
        return self._reminder_us is not None and now_us - alert.told_us >= self._reminder_us

    def _alert(self, key: Key, condition: AlertCondition, now_us: int) -> Alert:
        return Alert(
            id=self._ids.new(ALERT_PREFIX),
            rule=key[0],
            subject=condition.subject,
            severity=self._rules.of(key[0]).severity,
            words=printable(condition.words),
            owners=condition.owners,
            opened_us=now_us,
            told_us=now_us,
        )


def _write(draft: UnitOfWork, fresh: list[Alert], closed: list[Alert], reminded: list[Alert], now_us: int) -> None:
    """Idempotent: an attempt that was reported as failed may have been committed."""
    for alert in fresh:
        if draft.notice(Alert, alert.id) is None:
            draft.put(alert, "opened")
    for alert in closed:
        if draft.notice(Alert, alert.id) is not None:
            draft.put(replace(alert, closed_us=now_us), "closed")
    for alert in reminded:
        known = draft.notice(Alert, alert.id)
        if known is not None:
            draft.put(replace(alert, told_us=now_us), "reminded")
