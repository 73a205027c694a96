"""Notices.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import AlertRule, AlertState, DeliveryState, NoticeKind, Severity


class Alert(Struct, frozen=True, kw_only=True):
    """Something that holds and should not, from when it was sure until it was over."""

    id: str
    """`alr_...`."""
    version: int
    """Counts its changes."""
    rule: AlertRule
    """What it was opened for."""
    state: AlertState
    """Whether it still holds."""
    severity: Severity
    """How much it matters."""
    subject: str
    """An agent, `AGENT/DEVICE`, a user, or what there is one of: queue, ..."""
    message: str
    """What was seen when it was opened."""
    opened_at: datetime
    """When it was sure."""
    closed_at: datetime | None
    """When it was over; null while it holds."""


class Delivery(Struct, frozen=True, kw_only=True):
    """A notice on its way to one receiver, or what became of it."""

    id: str
    """`dlv_...`; repeats of it have the same."""
    version: int
    """Counts its changes."""
    notice_id: str
    """The alert, or event:NUMBER; the same for all receivers."""
    receiver: str
    """Where it goes."""
    kind: NoticeKind
    """What it is about."""
    severity: Severity
    """How much it matters."""
    is_over: bool
    """Whether it tells that an alert is closed."""
    subject: str
    """The alert's subject, or the session."""
    message: str
    """What it says."""
    user: str | None
    """Whom it is for; null: those who look after the cluster."""
    state: DeliveryState
    """Where it is."""
    tries: int
    """How often it was tried."""
    error: str | None
    """What the last try failed with."""
    made_at: datetime
    """When it was written down."""
    next_try_at: datetime | None
    """When it is tried next; null when it is over."""
    ended_at: datetime | None
    """When it was sent, or given up."""


class NoticePreferences(Struct, frozen=True, kw_only=True):
    """Where you are told of your sessions, and what of."""

    email: str | None
    """Your address; null is none."""
    notify: tuple[NoticeKind, ...]
    """What you are told of."""


class NoticeReceiver(Struct, frozen=True, kw_only=True):
    """Somewhere that notices go, by the settings of the server that answers."""

    name: str
    """As the settings call it."""
    kind: str
    """webhook, slack or email."""
    tells_alerts: bool
    """Whether it is told of the cluster's alerts."""
    tells_owners: bool
    """Whether it is told what becomes of people's sessions."""
    least_severity: Severity
    """It is told of nothing below."""
    kinds: tuple[NoticeKind, ...]
    """It is told of these alone; empty is all."""
    is_quiet: bool
    """Whether these are its quiet hours, in which only what is critical goes."""


class NoticeRule(Struct, frozen=True, kw_only=True):
    """When an alert opens."""

    rule: AlertRule
    """What it looks for."""
    version: int
    """Counts its changes; 0 is as the server's settings say."""
    is_on: bool
    """Whether anybody looks."""
    threshold: int
    """Above which it opens, in its unit."""
    unit: str
    """Of the threshold: tasks, seconds, percent; empty where there is none."""
    floor: int
    """For failure_rate: so many sessions have to have ended in the hour."""
    for_s: int
    """How many seconds it has to hold without a break."""
    severity: Severity
    """Of its alerts."""
    muted_until: datetime | None
    """Until then its alerts are shown, and told to nobody."""
    changed_at: datetime | None
    """When somebody changed it last."""
