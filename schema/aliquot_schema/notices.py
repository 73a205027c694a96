"""Notices: what people are told of by themselves. Rules open alerts, sessions come to an end, and receivers hear of it.

Times are microseconds UTC.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from aliquot_schema.ids import UserId

ALERT_PREFIX: Final = "alr_"
DELIVERY_PREFIX: Final = "dlv_"
MARK_ID: Final = "notices"
"""The one record's id."""


class Severity(IntEnum):
    """How much it matters. What is critical is told in quiet hours too."""

    INFO = 1
    WARNING = 2
    CRITICAL = 3


class AlertRule(StrEnum):
    """What an alert is opened for."""

    QUEUE_BACKLOG = "queue_backlog"
    """More tasks wait than the threshold."""
    LONG_WAIT = "long_wait"
    """Somebody's session waits for longer than the threshold, in seconds."""
    AGENT_LOST = "agent_lost"
    """An agent has been silent for long; what runs there may go on."""
    DEVICE_UNHEALTHY = "device_unhealthy"
    """A device is broken, or is gone while somebody holds it."""
    EXTERNAL_PROCESS = "external_process"
    """A process that is none of ours uses a device that nobody holds."""
    FAILURE_RATE = "failure_rate"
    """Of the sessions that ended within the last hour more failed than the threshold, in percent."""
    DISK_LOW = "disk_low"
    """A disk is nearly full, and nothing new is launched there."""
    LEADER_CHANGED = "leader_changed"
    """Another server leads; the alert stays open for the threshold, in seconds."""
    NO_LEADER = "no_leader"
    """No server leads: nothing is placed, and nothing that agents say is heard."""


class NoticeKind(StrEnum):
    """What a notice is about: an alert of a rule, or what became of a session."""

    QUEUE_BACKLOG = "queue_backlog"
    LONG_WAIT = "long_wait"
    AGENT_LOST = "agent_lost"
    DEVICE_UNHEALTHY = "device_unhealthy"
    EXTERNAL_PROCESS = "external_process"
    FAILURE_RATE = "failure_rate"
    DISK_LOW = "disk_low"
    LEADER_CHANGED = "leader_changed"
    NO_LEADER = "no_leader"
    SESSION_FAILED = "session_failed"
    RETRIES_SPENT = "retries_spent"
    """It failed, and has no retry left of those that it had."""
    SESSION_PREEMPTED = "session_preempted"
    SESSION_COMPLETED = "session_completed"
    TEST = "test"
    """Somebody tries a receiver."""


OWNERS_HEAR: Final = (
    NoticeKind.LONG_WAIT,
    NoticeKind.AGENT_LOST,
    NoticeKind.SESSION_FAILED,
    NoticeKind.RETRIES_SPENT,
    NoticeKind.SESSION_PREEMPTED,
    NoticeKind.SESSION_COMPLETED,
)
"""What is told to the owners of sessions, if they like."""
OWNERS_HEAR_UNASKED: Final = OWNERS_HEAR[:-1]
"""What they like as long as they have not said anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRule:
    """When an alert opens. Version 0 is as the settings of the server that leads say."""

    id: str
    """An `AlertRule`; with `mute:` before it until when that one is muted, and nothing else."""
    version: int = 0
    is_on: bool = True
    threshold: int = 0
    """In the unit of its kind, see `AlertRule`."""
    floor: int = 0
    """Of the failure rate: so many sessions have to have ended, at least."""
    for_s: int = 0
    """How long it has to hold without a break."""
    severity: Severity = Severity.WARNING
    muted_until_us: int | None = None
    """Until then its alerts open and close, and nobody is told."""
    changed_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that holds, from when it was sure until it was over."""

    id: str
    version: int = 0
    rule: AlertRule
    subject: str
    """An agent, `<agent>/<device>`, a user, or the name of what there is one of: `queue`, `cluster`."""
    severity: Severity
    words: str
    """What was seen when it was opened."""
    owners: tuple[UserId, ...] = ()
    """Whose sessions are concerned."""
    opened_us: int
    told_us: int
    """When people were told of it last."""
    closed_us: int | None = None


class DeliveryState(StrEnum):
    """Where a notice for one receiver is."""

    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given_up"
    """The receiver did not take it for a day, or refused it for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notice on its way to one receiver. It is written before it is sent, so that none is lost."""

    id: str
    version: int = 0
    receiver: str
    """The name that the settings give it."""
    kind: NoticeKind
    severity: Severity
    is_over: bool = False
    """Whether it tells that an alert is closed."""
    subject: str
    """The alert's, or the session's id."""
    words: str
    user: UserId | None = None
    """Whom it is for; None = those who look after the cluster."""
    notice_id: str
    """The alert, the session's event as `event:<number>`, or the delivery itself; the same for all receivers."""
    state: DeliveryState = DeliveryState.WAITING
    tries: int = 0
    is_gathered: bool = False
    """It goes in one letter with all others of the receiver and user that are due at the same time."""
    made_us: int
    next_us: int
    """When it is tried next."""
    ended_us: int | None = None
    error: str | None = None
    """What the last try failed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Where somebody is told of his sessions, and what of."""

    id: UserId
    version: int = 0
    email: str | None = None
    notify: tuple[NoticeKind, ...] = OWNERS_HEAR_UNASKED
    changed_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeMark:
    """Up to which event notices have been made. Written with them, so that each is made once."""

    id: str = MARK_ID
    version: int = 0
    number: int = 0
