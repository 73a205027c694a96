"""Read models of alerts and notices, and requests about them as they came in. Times are aware UTC, durations s."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aliquot_schema.notices import AlertRule, DeliveryState, NoticeKind, Severity


class AlertState(StrEnum):
    """Which alerts."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """Something that holds, or held."""

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
    """When an alert opens."""

    rule: AlertRule
    version: int
    """0 = as the settings say."""
    is_on: bool
    threshold: int
    unit: str
    """Of the threshold; empty where there is none."""
    floor: int
    for_s: int
    severity: Severity
    muted_until: datetime | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRuleChanges:
    """What changes of a rule; None = it stays as it is."""

    rule: AlertRule
    is_on: bool | None = None
    threshold: int | None = None
    floor: int | None = None
    for_s: int | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRuleChanged:
    """What a mutation did to a rule."""

    rule: NoticeRuleView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverView:
    """Somewhere that notices go, as the settings of the server that answers have it."""

    name: str
    kind: str
    tells_alerts: bool
    tells_owners: bool
    least_severity: Severity
    kinds: tuple[NoticeKind, ...]
    """Empty = all."""
    is_quiet: bool
    """Whether it is in its quiet hours now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """A notice for one receiver."""

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
    """A notice is on its way to a receiver that somebody tries."""

    delivery: DeliveryView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePreferencesView:
    """Where the caller is told of his sessions, and what of."""

    email: str | None
    notify: tuple[NoticeKind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePreferencesChanges:
    """What changes; None = it stays as it is."""

    email: str | None = None
    """Empty = none any more."""
    notify: tuple[NoticeKind, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticePreferencesChanged:
    """What a mutation did to them."""

    preferences: NoticePreferencesView
    revision: int
