"""Read models of alerts and notices, and requests to change them. Times are aware UTC, durations seconds."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.alerts import AlertRule, DeliveryState, NoticeKind, Severity
from aliquot_schema.enums import DescribedStr


class AlertState(DescribedStr):
    """State of an alert, also used as a filter."""

    OPEN = "open", "Its condition holds."
    CLOSED = "closed", "Its condition no longer holds."


class AlertView(Struct, frozen=True, kw_only=True):
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


class NoticeRuleView(Struct, frozen=True, kw_only=True):
    """An alert rule."""

    rule: AlertRule
    description: str
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


class NoticeRuleChanges(Struct, frozen=True, kw_only=True):
    """Changes of a rule; None = unchanged."""

    rule: AlertRule
    is_on: bool | None = None
    threshold: int | None = None
    floor: int | None = None
    for_s: int | None = None
    severity: Severity | None = None


class NoticeRuleChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of a rule."""

    rule: NoticeRuleView
    revision: int


class ReceiverView(Struct, frozen=True, kw_only=True):
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


class DeliveryView(Struct, frozen=True, kw_only=True):
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


class TestNoticeSent(Struct, frozen=True, kw_only=True):
    """Result of `send_test_notice`."""

    delivery: DeliveryView
    revision: int


class NoticePreferencesView(Struct, frozen=True, kw_only=True):
    """The caller's notice preferences."""

    email: str | None
    notify: tuple[NoticeKind, ...]
    sends_mail: bool
    """Whether the server sends mail to owners of sessions."""


class NoticePreferencesChanges(Struct, frozen=True, kw_only=True):
    """Changes of the preferences; None = unchanged."""

    email: str | None = None
    """Empty = removed."""
    notify: tuple[NoticeKind, ...] | None = None


class NoticePreferencesChanged(Struct, frozen=True, kw_only=True):
    """Result of a change of the preferences."""

    preferences: NoticePreferencesView
    revision: int
