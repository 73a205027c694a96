"""Read models of alerts, notice rules, receivers, deliveries and notice preferences."""

from typing import Final

from aliquot.service.alerts.routing import Receiver
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.alerts import OWNERS_HEAR_UNASKED, Alert, AlertRule, Delivery, DeliveryState, NoticeRule, Subscriber
from aliquot_schema.views.alerts import (
    AlertState,
    AlertView,
    DeliveryView,
    NoticePreferencesView,
    NoticeRuleView,
    ReceiverView,
)

UNITS: Final = {
    AlertRule.QUEUE_BACKLOG: "tasks",
    AlertRule.LONG_WAIT: "seconds",
    AlertRule.FAILURE_RATE: "percent",
    AlertRule.IDLE_BEHIND_QUOTAS: "GPUs",
    AlertRule.GPU_IDLE: "seconds",
    AlertRule.BUDGET_SPENT: "percent",
    AlertRule.SESSION_OVERLONG: "percent",
    AlertRule.USE_DROPPED: "seconds",
    AlertRule.SLOW_TWIN: "percent",
    AlertRule.LEADER_CHANGED: "seconds",
    AlertRule.CLOCK_CORRECTED: "seconds",
}
"""Units of the thresholds; rules that are not listed have no threshold."""


def alert_view(alert: Alert) -> AlertView:
    """One alert."""
    return AlertView(
        id=alert.id,
        version=alert.version,
        rule=alert.rule,
        state=AlertState.OPEN if alert.closed_us is None else AlertState.CLOSED,
        severity=alert.severity,
        subject=alert.subject,
        message=alert.words,
        opened_at=moment(alert.opened_us),
        closed_at=moment_or_none(alert.closed_us),
    )


def rule_view(rule: NoticeRule) -> NoticeRuleView:
    """A rule with the unit of its threshold; version 0 means that it comes from the settings."""
    kind = AlertRule(rule.id)
    return NoticeRuleView(
        rule=kind,
        description=kind.description,
        version=rule.version,
        is_on=rule.is_on,
        threshold=rule.threshold,
        unit=UNITS.get(kind, ""),
        floor=rule.floor,
        for_s=rule.for_s,
        severity=rule.severity,
        muted_until=moment_or_none(rule.muted_until_us),
        changed_at=moment(rule.changed_us) if rule.version else None,
    )


def receiver_view(receiver: Receiver, *, now_us: int) -> ReceiverView:
    """A receiver without its address, which can be a secret."""
    return ReceiverView(
        name=receiver.name,
        kind=receiver.kind,
        tells_alerts=receiver.tells_alerts,
        tells_owners=receiver.tells_owners,
        least_severity=receiver.least,
        kinds=tuple(sorted(receiver.kinds)),
        is_quiet=receiver.quiet is not None and receiver.quiet.until(moment(now_us)) is not None,
    )


def delivery_view(one: Delivery) -> DeliveryView:
    """One delivery; the time of the next attempt is given only while it waits."""
    return DeliveryView(
        id=one.id,
        version=one.version,
        notice_id=one.notice_id,
        receiver=one.receiver,
        kind=one.kind,
        severity=one.severity,
        is_over=one.is_over,
        subject=one.subject,
        message=one.words,
        user=one.user,
        state=one.state,
        tries=one.tries,
        error=one.error,
        made_at=moment(one.made_us),
        next_try_at=moment(one.next_us) if one.state is DeliveryState.WAITING else None,
        ended_at=moment_or_none(one.ended_us),
    )


def preferences_view(known: Subscriber | None, *, sends_mail: bool) -> NoticePreferencesView:
    """Preferences of a user, with the defaults for a user who has set none."""
    if known is None:
        return NoticePreferencesView(email=None, notify=OWNERS_HEAR_UNASKED, sends_mail=sends_mail)
    return NoticePreferencesView(email=known.email, notify=known.notify, sends_mail=sends_mail)
