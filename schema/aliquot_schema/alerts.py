"""Alerts and notices: rules, alerts, deliveries to receivers, users' preferences. Times are microseconds UTC."""

from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedInt, DescribedStr
from aliquot_schema.ids import UserId

ALERT_PREFIX: Final = "alr_"
DELIVERY_PREFIX: Final = "dlv_"
MARK_ID: Final = "notices"
"""Id of the single record."""


class Severity(DescribedInt):
    """Severity. Critical notices are sent during quiet hours too."""

    INFO = 1, "For information."
    WARNING = 2, "To be looked into during the day."
    CRITICAL = 3, "To be looked into immediately."


class AlertRule(DescribedStr):
    """Condition that opens an alert. The threshold is that of its `NoticeRule`."""

    QUEUE_BACKLOG = "queue_backlog", "More tasks wait than the threshold."
    LONG_WAIT = "long_wait", "A session waits longer than the threshold."
    AGENT_LOST = "agent_lost", "An agent is lost; its jobs may still be running."
    DEVICE_UNHEALTHY = (
        "device_unhealthy",
        "A device is unhealthy, disappeared while it was held, or more of it is held than it has.",
    )
    EXTERNAL_PROCESS = (
        "external_process",
        "A process that Aliquot did not start uses a device. Its owner gets one notice, if known.",
    )
    FAILURE_RATE = (
        "failure_rate",
        "Of the sessions that ended in the last hour, a larger part failed than the threshold.",
    )
    DISK_LOW = "disk_low", "A disk is nearly full; nothing new is launched there."
    RESULTS_NOT_COPIED = (
        "results_not_copied",
        "An agent cannot copy results of ended sessions to the shared folder; it tries every minute.",
    )
    IDLE_BEHIND_QUOTAS = (
        "idle_behind_quotas",
        "More GPUs are free than the threshold, and sessions that would fit are held back by quotas.",
    )
    GPU_IDLE = "gpu_idle", "A session holds GPUs and has not used them for the threshold."
    BUDGET_SPENT = "budget_spent", "An account has spent a larger part of its budget of the month than the threshold."
    SESSION_OVERLONG = (
        "session_overlong",
        "A session has run longer than the threshold, in percent of the mean of similar runs, and an hour "
        "longer than that mean.",
    )
    USE_DROPPED = "use_dropped", "A session used its GPU steadily, and has used it almost not at all for the threshold."
    SLOW_TWIN = (
        "slow_twin",
        "A task of an array, or a GPU of a session, is used less than the threshold, in percent of the median "
        "of the others.",
    )
    LEADER_CHANGED = "leader_changed", "Another server has become the leader; the alert stays open for the threshold."
    NO_LEADER = "no_leader", "No server leads: nothing is placed, and reports of agents are not processed."
    CLOCK_CORRECTED = (
        "clock_corrected",
        "The clock of the server's machine was set by more than a minute, or the newest event was ahead of it "
        "by as much; the alert stays open for the threshold.",
    )
    RAY_DISCONNECTED = "ray_disconnected", "The leader is not connected to Ray: nothing starts on Ray's nodes."


class NoticeKind(DescribedStr):
    """Subject of a notice: an alert of a rule, or a change of a session."""

    QUEUE_BACKLOG = "queue_backlog", "An alert of this rule."
    LONG_WAIT = "long_wait", "An alert of this rule."
    AGENT_LOST = "agent_lost", "An alert of this rule."
    DEVICE_UNHEALTHY = "device_unhealthy", "An alert of this rule."
    EXTERNAL_PROCESS = "external_process", "An alert of this rule."
    FAILURE_RATE = "failure_rate", "An alert of this rule."
    DISK_LOW = "disk_low", "An alert of this rule."
    RESULTS_NOT_COPIED = "results_not_copied", "An alert of this rule."
    IDLE_BEHIND_QUOTAS = "idle_behind_quotas", "An alert of this rule."
    GPU_IDLE = "gpu_idle", "An alert of this rule."
    BUDGET_SPENT = "budget_spent", "An alert of this rule."
    SESSION_OVERLONG = "session_overlong", "An alert of this rule."
    USE_DROPPED = "use_dropped", "An alert of this rule."
    SLOW_TWIN = "slow_twin", "An alert of this rule."
    LEADER_CHANGED = "leader_changed", "An alert of this rule."
    NO_LEADER = "no_leader", "An alert of this rule."
    CLOCK_CORRECTED = "clock_corrected", "An alert of this rule."
    RAY_DISCONNECTED = "ray_disconnected", "An alert of this rule."
    SESSION_FAILED = "session_failed", "A session failed."
    RETRIES_SPENT = "retries_spent", "The session failed and has no retries left."
    SESSION_PREEMPTED = "session_preempted", "A session was preempted."
    SESSION_COMPLETED = "session_completed", "A session completed."
    RIGHT_SIZE = (
        "right_size",
        "Once a week: what the owner's commands needed, where that is less than their sessions requested.",
    )
    WEEKLY_REPORT = (
        "weekly_report",
        "Once a week, to operators: who used how many GPU-hours, while the server observes.",
    )
    TEST = "test", "A test of a receiver."


OWNERS_HEAR: Final = (
    NoticeKind.LONG_WAIT,
    NoticeKind.AGENT_LOST,
    NoticeKind.SESSION_FAILED,
    NoticeKind.RETRIES_SPENT,
    NoticeKind.SESSION_PREEMPTED,
    NoticeKind.EXTERNAL_PROCESS,
    NoticeKind.RIGHT_SIZE,
    NoticeKind.BUDGET_SPENT,
    NoticeKind.GPU_IDLE,
    NoticeKind.SESSION_OVERLONG,
    NoticeKind.USE_DROPPED,
    NoticeKind.SLOW_TWIN,
    NoticeKind.SESSION_COMPLETED,
)
"""Kinds that owners of sessions and of processes can receive."""
OWNERS_HEAR_UNASKED: Final = OWNERS_HEAR[:-5]
"""Kinds that owners receive unless they choose otherwise. Steps of the idle process are always sent."""


class NoticeRule(Struct, frozen=True, kw_only=True):
    """Settings of an alert rule. Version 0 = the settings of the leading server."""

    id: str
    """An `AlertRule`; or `mute:<rule>` for a record that only holds `muted_until_us` of that rule."""
    version: int = 0
    is_on: bool = True
    threshold: int = 0
    """In the rule's unit, see `AlertRule`."""
    floor: int = 0
    """`failure_rate`: minimum number of sessions that ended in the hour; `session_overlong`: of similar runs;
    `slow_twin`: of those compared."""
    for_s: int = 0
    """Seconds that the condition must hold without interruption."""
    severity: Severity = Severity.WARNING
    muted_until_us: int | None = None
    """Until then its alerts open and close without notices."""
    changed_us: int = 0


class Alert(Struct, frozen=True, kw_only=True):
    """A condition that a rule detected, from its confirmation to its end."""

    id: str
    version: int = 0
    rule: AlertRule
    subject: str
    """An agent, `<agent>/<device>`, a user, `queue` or `cluster`."""
    severity: Severity
    words: str
    """Message with the facts at the time it was opened."""
    owners: tuple[UserId, ...] = ()
    """Users whose sessions are affected."""
    opened_us: int
    told_us: int
    """When a notice of it was sent last."""
    closed_us: int | None = None


class DeliveryState(DescribedStr):
    """State of a delivery."""

    WAITING = "waiting", "It will be sent, or sent again."
    SENT = "sent", "The receiver accepted it."
    GIVEN_UP = "given_up", "The receiver rejected it permanently, or did not accept it for a day."


class Delivery(Struct, frozen=True, kw_only=True):
    """A notice for one receiver. It is stored before it is sent, so that none is lost."""

    id: str
    version: int = 0
    receiver: str
    """The receiver's name in the settings."""
    kind: NoticeKind
    severity: Severity
    is_over: bool = False
    """Whether it reports that an alert was closed."""
    subject: str
    """The alert's subject, or the session's id."""
    words: str
    user: UserId | None = None
    """Addressee; None = the cluster's operators."""
    notice_id: str
    """The alert, the session's event as `event:<number>`, or a test's delivery; the same for all receivers."""
    state: DeliveryState = DeliveryState.WAITING
    tries: int = 0
    is_gathered: bool = False
    """Whether it is combined into one message with others of the same receiver and user that are due."""
    made_us: int
    next_us: int
    """Time of the next attempt."""
    ended_us: int | None = None
    error: str | None = None
    """Error of the last attempt."""


class Subscriber(Struct, frozen=True, kw_only=True):
    """A user's notice preferences: address and kinds."""

    id: UserId
    version: int = 0
    email: str | None = None
    notify: tuple[NoticeKind, ...] = OWNERS_HEAR_UNASKED
    changed_us: int = 0


class NoticeMark(Struct, frozen=True, kw_only=True):
    """The last event that notices were made for; committed together with the notices, so that each is made once."""

    id: str = MARK_ID
    version: int = 0
    number: int = 0
