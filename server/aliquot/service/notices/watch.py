"""The watch: opens an alert when its condition has held for long enough, and closes it when it is over for good."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from aliquot.service.draft import Draft
from aliquot.service.notices.calm import Calm, Key
from aliquot.service.notices.conditions import LOOKS, Condition, Look
from aliquot.service.notices.room import Room
from aliquot.service.notices.rules import Rules
from aliquot.service.notices.terms import SECOND_US, printable
from aliquot.service.ports import NotLeader, StoreUnavailable
from aliquot_schema.notices import ALERT_PREFIX, Alert, AlertRule

log: Final = logging.getLogger("aliquot.alerts")

ACTOR: Final = "system:alerts"
LOOK_S: Final = 5.0


class Watch:
    """Of the server that leads. Since when something holds is known in memory alone: after a take-over it is counted
    from then on; what was open stays open."""

    def __init__(
        self,
        room: Room,
        *,
        rules: Rules,
        more: Mapping[AlertRule, Look] | None = None,
        reminder_s: int | None = None,
    ) -> None:
        """
        Args:
            more: looks beside those at the state.
            reminder_s: how often people are reminded of what stays open; None = never.
        """
        self._state, self._journal, self._clock, self._ids = room.state, room.journal, room.clock, room.ids
        self._rules = rules
        self._looks = {**LOOKS, **(more or {})}
        self._reminder_us = None if reminder_s is None else reminder_s * SECOND_US
        self._holds_since: dict[Key, int] = {}
        self._over_since: dict[Key, int] = {}
        self._calm = Calm()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.run_once()
            except (NotLeader, StoreUnavailable):
                raise
            except Exception:
                log.exception("what alerts are about could not be looked at; it is tried again")
            await self._clock.sleep(LOOK_S)

    async def run_once(self) -> tuple[int, int]:
        """Look once; returns how many alerts were opened and closed."""
        now_us = self._clock.now_us()
        holding = self._holding(now_us)
        open_ = {(AlertRule(alert.rule), alert.subject): alert for alert in self._state.noticed.alerts.values()}
        opened = [key for key in holding if key not in open_ and self._is_sure(key, now_us)]
        closed = [alert for key, alert in open_.items() if self._is_over(key, alert, holding, now_us)]
        reminded = [alert for alert in open_.values() if alert not in closed and self._is_forgotten(alert, now_us)]
        if opened or closed or reminded:
            fresh = [self._alert(key, holding[key], now_us) for key in opened]
            await self._journal.persist(lambda draft: _write(draft, fresh, closed, reminded, now_us), actor=ACTOR)
        for alert in closed:
            self._calm.note_closed(alert, now_us=now_us)
        return len(opened), len(closed)

    def _holding(self, now_us: int) -> dict[Key, Condition]:
        found = dict(self._found(now_us))
        for key in found:
            self._holds_since.setdefault(key, now_us)
            self._over_since.pop(key, None)
        for key in [key for key in self._holds_since if key not in found]:
            del self._holds_since[key]
        return found

    def _found(self, now_us: int) -> Iterator[tuple[Key, Condition]]:
        for name, look in self._looks.items():
            rule = self._rules.of(name)
            for condition in look(self._state, rule, now_us) if rule.is_on else ():
                yield (name, condition.subject), condition

    def _is_sure(self, key: Key, now_us: int) -> bool:
        return now_us - self._holds_since[key] >= self._rules.of(key[0]).for_s * SECOND_US

    def _is_over(self, key: Key, alert: Alert, holding: Mapping[Key, Condition], now_us: int) -> bool:
        if key[0] not in self._looks:
            return False  # it is for others to close
        rule = self._rules.of(key[0])
        if key in holding:
            return False
        since_us = self._over_since.setdefault(key, now_us)
        is_over = not rule.is_on or now_us - since_us >= self._calm.needed_us(alert, rule)
        if is_over:
            del self._over_since[key]
        return is_over

    def _is_forgotten(self, alert: Alert, now_us: int) -> bool:
        return self._reminder_us is not None and now_us - alert.told_us >= self._reminder_us

    def _alert(self, key: Key, condition: Condition, now_us: int) -> Alert:
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


def _write(draft: Draft, fresh: list[Alert], closed: list[Alert], reminded: list[Alert], now_us: int) -> None:
    """Nothing twice, also where a try that failed was written all the same."""
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
