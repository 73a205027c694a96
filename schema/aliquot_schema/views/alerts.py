"""Read models of alerts and notices, and requests to change them. Times are aware UTC, durations seconds."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aliquot_schema.alerts import AlertRule, DeliveryState, NoticeKind, Severity


class AlertState(StrEnum):
    """State of an alert, also used as a filter."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """An alert."""

    id: str
    version: int
    rule: AlertRule
    state: AlertState
    severity: Severity
    subject: str
    message: str
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRuleView:
    """An alert rule."""

    rule: AlertRule
    version: int
    """0 = the server's settings."""
    is_on: bool
    threshold: int
    unit: str
    """Unit of the threshold; empty = the rule has no threshold."""
    floor: int
    for_s: int
    severity: Severity
    muted_until: datetime | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRuleChanges:
    """Changes of a rule; None = unchanged."""

    rule: AlertRule
    is_on: bool | None = None
    threshold: int | None = None
    floor: int | None = None
    for_s: int | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRuleChanged:
    """Result of a mutation of a rule."""

    rule: NoticeRuleView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverView:
    """A receiver of notices, as configured on the answering server."""

    name: str
    kind: str
    tells_alerts: bool
    tells_owners: bool
    least_severity: Severity
    kinds: tuple[NoticeKind, ...]
    """Empty = all."""
    is_quiet: bool
    """Whether its quiet hours are in effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """A delivery: one notice for one receiver."""

    id: str
    version: int
    notice_id: str
    receiver: str
    kind: NoticeKind
    severity: Severity
    is_over: bool
    subject: str
    message: str
    user: str | None
    state: DeliveryState
    tries: int
    error: str | None
    made_at: datetime
    next_try_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSent:
    """Result of `send_test_notice`."""

    delivery: DeliveryView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePreferencesView:
    """The caller's notice preferences."""

    email: str | None
    notify: tuple[NoticeKind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePreferencesChanges:
    """Changes of the preferences; None = unchanged."""

    email: str | None = None
    """Empty = removed."""
    notify: tuple[NoticeKind, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePreferencesChanged:
    """Result of a change of the preferences."""

    preferences: NoticePreferencesView
    revision: int
