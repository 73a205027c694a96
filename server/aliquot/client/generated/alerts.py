"""Alerts.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import AlertRule, AlertState, DeliveryState, NoticeKind, Severity


class Alert(Struct, frozen=True, kw_only=True):
    """A problem detected by an alert rule, from its confirmation to its end."""

    id: str
    """`alr_...`."""
    version: int
    """Incremented by every change."""
    rule: AlertRule
    """The rule that opened it."""
    state: AlertState
    """Whether it is still open."""
    severity: Severity
    """Severity."""
    subject: str
    """An agent, `AGENT/DEVICE`, a user, `queue` or `cluster`."""
    message: str
    """Message with the facts at the time it was opened."""
    opened_at: datetime
    """When the problem was confirmed."""
    closed_at: datetime | None
    """When it ended; null while it is open."""


class Delivery(Struct, frozen=True, kw_only=True):
    """A notice for one receiver, and the state of its delivery."""

    id: str
    """`dlv_...`; the same for repeated attempts."""
    version: int
    """Incremented by every change."""
    notice_id: str
    """The alert, or `event:NUMBER`; the same for all receivers."""
    receiver: str
    """Name of the receiver."""
    kind: NoticeKind
    """Subject of the notice."""
    severity: Severity
    """Severity."""
    is_over: bool
    """Whether it reports that an alert was closed."""
    subject: str
    """The alert's subject, or the session."""
    message: str
    """Text of the notice."""
    user: str | None
    """The addressee; null = the cluster's operators."""
    state: DeliveryState
    """State of the delivery."""
    tries: int
    """Number of attempts."""
    error: str | None
    """Error of the last attempt."""
    made_at: datetime
    """When it was created."""
    next_try_at: datetime | None
    """When the next attempt is due; null if there is none."""
    ended_at: datetime | None
    """When it was sent or given up."""


class MuteNoticeRuleInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A period without notices of a rule's alerts."""

    rule: AlertRule
    """The rule."""
    seconds: float
    """Length in seconds from now; 0 = unmute."""


class NoticePreferences(Struct, frozen=True, kw_only=True):
    """The caller's notice preferences."""

    email: str | None
    """Email address; null = none."""
    notify: tuple[NoticeKind, ...]
    """Kinds of notices that are sent."""
    sends_mail: bool
    """Whether an admin has set up mail to owners of sessions."""


class NoticeReceiver(Struct, frozen=True, kw_only=True):
    """A receiver of notices, as configured on the answering server."""

    name: str
    """Its name in the settings."""
    kind: str
    """`webhook`, `slack` or `email`."""
    tells_alerts: bool
    """Whether it receives alerts of the cluster."""
    tells_owners: bool
    """Whether it receives notices for owners of sessions."""
    least_severity: Severity
    """Minimum severity that it receives."""
    kinds: tuple[NoticeKind, ...]
    """Kinds that it receives; empty = all."""
    is_quiet: bool
    """Whether its quiet hours are in effect, during which only critical notices are sent."""


class NoticeRule(Struct, frozen=True, kw_only=True):
    """An alert rule: the condition under which alerts open."""

    rule: AlertRule
    """The rule."""
    description: str
    """When an alert of it opens, as a sentence."""
    version: int
    """Incremented by every change; 0 = the server's settings."""
    is_on: bool
    """Whether the rule is evaluated."""
    threshold: int
    """Threshold in the rule's unit; an alert opens above it."""
    unit: str
    """Unit of the threshold, like tasks, seconds or percent; empty if the rule has none."""
    floor: int
    """How many are compared at least: sessions or similar runs, or tasks of an array; 0 = it has none."""
    for_s: int
    """Seconds that the condition must hold without interruption."""
    severity: Severity
    """Severity of its alerts."""
    muted_until: datetime | None
    """Until then its alerts are listed, but no notices are sent."""
    changed_at: datetime | None
    """When it was last changed; null = never."""


class SetNoticePreferencesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of the caller's notice preferences. Null fields are unchanged."""

    email: str | None = None
    """Email address; empty = none."""
    notify: Sequence[NoticeKind] | None = None
    """Kinds of notices to receive; replaces the list."""


class SetNoticeRuleInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of an alert rule. Null fields are unchanged."""

    rule: AlertRule
    """The rule."""
    is_on: bool | None = None
    """Whether the rule is evaluated."""
    threshold: int | None = None
    """Threshold in the rule's unit; an alert opens above it."""
    floor: int | None = None
    """failure_rate only: minimum number of sessions that ended in the hour."""
    for_s: int | None = None
    """Seconds that the condition must hold without interruption."""
    severity: Severity | None = None
    """Severity of its alerts."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""
