"""Enums.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from enum import StrEnum


class AgentOrder(StrEnum):
    """Sort order of agents, natural: node2 before node10."""

    ID = "id"
    HOSTNAME = "hostname"


class AgentState(StrEnum):
    """
    State of an agent as the server sees it. Devices of a lost agent stay held, because its jobs may still be running.
    """

    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"
    LEFT = "left"


class AlertRule(StrEnum):
    """Condition that opens an alert."""

    QUEUE_BACKLOG = "queue_backlog"
    LONG_WAIT = "long_wait"
    AGENT_LOST = "agent_lost"
    DEVICE_UNHEALTHY = "device_unhealthy"
    EXTERNAL_PROCESS = "external_process"
    FAILURE_RATE = "failure_rate"
    DISK_LOW = "disk_low"
    RESULTS_NOT_COPIED = "results_not_copied"
    IDLE_BEHIND_QUOTAS = "idle_behind_quotas"
    GPU_IDLE = "gpu_idle"
    BUDGET_SPENT = "budget_spent"
    SESSION_OVERLONG = "session_overlong"
    USE_DROPPED = "use_dropped"
    SLOW_TWIN = "slow_twin"
    LEADER_CHANGED = "leader_changed"
    NO_LEADER = "no_leader"
    CLOCK_CORRECTED = "clock_corrected"
    RAY_DISCONNECTED = "ray_disconnected"


class AlertState(StrEnum):
    """Whether an alert is still open."""

    OPEN = "open"
    CLOSED = "closed"


class AllocationMode(StrEnum):
    """How the devices of a node are divided among its agents."""

    SHARED = "shared"
    AUTO_SPLIT = "auto_split"
    MANUAL = "manual"


class AtBudget(StrEnum):
    """What happens to waiting sessions of an account that has spent its budget of the month."""

    HOLD = "hold"
    LOW = "low"


class Backfill(StrEnum):
    """Which sessions may start before the head of the queue while the head does not fit."""

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class BacktestState(StrEnum):
    """State of a backtest. Queued ones start after those before them."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class BookingKind(StrEnum):
    """What a booking is for."""

    USE = "use"
    MAINTENANCE = "maintenance"


class BookingState(StrEnum):
    """State of a booking."""

    REQUESTED = "requested"
    BOOKED = "booked"
    REFUSED = "refused"
    CANCELED = "canceled"
    GIVEN_BACK = "given_back"
    NO_SHOW = "no_show"
    ENDED = "ended"


class DeliveryState(StrEnum):
    """State of a delivery: waiting to be sent, sent, or given up after a day or a permanent rejection."""

    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given_up"


class DependencyCondition(StrEnum):
    """Condition of a dependency: the other session completed, ended in any state, or failed."""

    AFTER_OK = "after_ok"
    AFTER_ANY = "after_any"
    AFTER_FAIL = "after_fail"


class DeviceAccess(StrEnum):
    """How kernels are kept from devices they were not allocated: env is advisory, cgroup is enforced."""

    ENV = "env"
    CGROUP = "cgroup"


class DeviceHealth(StrEnum):
    """Health of a device. Only healthy devices are allocated to new sessions."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    GONE = "gone"
    LEAVING = "leaving"


class Discrepancy(StrEnum):
    """Kind of discrepancy between the server's records, an agent's state and the processes on its devices."""

    LEASE_WITHOUT_PROCESS = "lease_without_process"
    PROCESS_WITHOUT_LEASE = "process_without_lease"
    PROCESS_AFTER_END = "process_after_end"
    SPEC_WITHOUT_LEASE = "spec_without_lease"
    SPEC_DIFFERS = "spec_differs"
    DEVICE_GONE = "device_gone"
    DEVICE_UNHEALTHY = "device_unhealthy"
    DEVICE_OVERCOMMITTED = "device_overcommitted"
    EXTERNAL_PROCESS = "external_process"


class DocumentFormat(StrEnum):
    """Format of a statement."""

    CSV = "csv"
    HTML = "html"


class IdleAction(StrEnum):
    """
    What happens to a session that does not use its GPUs: nothing; its steps are only recorded; its owner is told twice;
    it is then preempted, or ended, if a waiting session starts for it.
    """

    OFF = "off"
    OBSERVE = "observe"
    TELL = "tell"
    PREEMPT = "preempt"
    END = "end"


class IdleStep(StrEnum):
    """
    Last step for a session that does not use its GPUs. Its owner was told once or twice; it loses its GPUs when a
    waiting session starts for it; its owner still needs it; it lost them; it uses them again.
    """

    TOLD = "told"
    TOLD_AGAIN = "told_again"
    DUE = "due"
    KEPT = "kept"
    ACTED = "acted"
    OVER = "over"


class ImportedRowState(StrEnum):
    """What became of a row of a file of bookings, or would in a dry run."""

    BOOKED = "booked"
    BOOKABLE = "bookable"
    KNOWN = "known"
    REFUSED = "refused"
    WRONG = "wrong"


class Isolation(StrEnum):
    """Isolation between holders of one device, weakest first."""

    NONE = "none"
    MPS = "mps"
    MIG = "mig"


class KernelState(StrEnum):
    """State of a kernel. Its devices become free when it is exited, not before."""

    GRANTED = "granted"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    UNKNOWN = "unknown"


class KeyScope(StrEnum):
    """Upper bound on what a key allows, whatever its owner's role."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"


class LeaseKind(StrEnum):
    """Kind of lease: held by a session's kernel, by a user's external allocation, or by a reservation."""

    SESSION = "session"
    MANUAL = "manual"
    RESERVATION = "reservation"


class NoticeKind(StrEnum):
    """Subject of a notice: an alert of a rule, or a change of a session."""

    QUEUE_BACKLOG = "queue_backlog"
    LONG_WAIT = "long_wait"
    AGENT_LOST = "agent_lost"
    DEVICE_UNHEALTHY = "device_unhealthy"
    EXTERNAL_PROCESS = "external_process"
    FAILURE_RATE = "failure_rate"
    DISK_LOW = "disk_low"
    RESULTS_NOT_COPIED = "results_not_copied"
    IDLE_BEHIND_QUOTAS = "idle_behind_quotas"
    GPU_IDLE = "gpu_idle"
    BUDGET_SPENT = "budget_spent"
    SESSION_OVERLONG = "session_overlong"
    USE_DROPPED = "use_dropped"
    SLOW_TWIN = "slow_twin"
    LEADER_CHANGED = "leader_changed"
    NO_LEADER = "no_leader"
    CLOCK_CORRECTED = "clock_corrected"
    RAY_DISCONNECTED = "ray_disconnected"
    SESSION_FAILED = "session_failed"
    RETRIES_SPENT = "retries_spent"
    SESSION_PREEMPTED = "session_preempted"
    SESSION_COMPLETED = "session_completed"
    RIGHT_SIZE = "right_size"
    WEEKLY_REPORT = "weekly_report"
    TEST = "test"


class OrchestratorState(StrEnum):
    """Whether sessions are placed. Running sessions and submissions continue in both states."""

    RUNNING = "running"
    STOPPED = "stopped"


class PreemptScope(StrEnum):
    """
    Which sessions may be preempted: none, those submitted as preemptible, or any. Quota lent to users without own quota
    is reclaimed even if their sessions are not preemptible.
    """

    NONE = "none"
    PREEMPTIBLE = "preemptible"
    ANY = "any"


class PreemptionCause(StrEnum):
    """
    Cause of a preemption: a session of higher priority, one before it under a preemptive order, reclaimed quota, a
    drained agent, a node that is about to be taken away, a lost device, unused GPUs, or the restart of an elastic gang
    with more kernels.
    """

    PRIORITY = "priority"
    ORDER = "order"
    QUOTA = "quota"
    DRAIN = "drain"
    EVICTION = "eviction"
    BOOKING = "booking"
    DEVICE = "device"
    IDLE = "idle"
    GROW = "grow"


class QuotaScope(StrEnum):
    """What a quota applies to: a user, a project, the whole cluster, or the sessions of one API key."""

    USER = "user"
    PROJECT = "project"
    CLUSTER = "cluster"
    KEY = "key"


class Reason(StrEnum):
    """Why a session waits. The first reason that applies, in this order, is reported."""

    STOPPED = "stopped"
    CLUSTER_UNAVAILABLE = "cluster_unavailable"
    HELD = "held"
    DEPENDENCY = "dependency"
    NOT_BEFORE = "not_before"
    NO_AGENT = "no_agent"
    ARRAY_LIMIT = "array_limit"
    QUOTA = "quota"
    BEHIND_HEAD = "behind_head"
    MAKING_ROOM = "making_room"
    RESERVED = "reserved"
    BOOKED = "booked"
    INSUFFICIENT = "insufficient"
    FRAGMENTED = "fragmented"
    GANG_INCOMPLETE = "gang_incomplete"


class RemedyKind(StrEnum):
    """What a remedy changes, from what costs the session's owner least."""

    RELEASE = "release"
    TIME_LIMIT = "time_limit"
    PREEMPTIBLE = "preemptible"
    MODEL = "model"
    POOL = "pool"
    PROJECT = "project"
    PRIORITY = "priority"
    FEWER_GPUS = "fewer_gpus"
    SHARE = "share"
    FEWER_KERNELS = "fewer_kernels"
    WAIT = "wait"
    PREEMPT = "preempt"
    QUOTA = "quota"


class RightSizeKind(StrEnum):
    """Part of a request that right-size advice is about."""

    GPUS = "gpus"
    SHARE = "share"
    GPU_MEMORY = "gpu_memory"
    MEMORY = "memory"
    TIME_LIMIT = "time_limit"


class Role(StrEnum):
    """
    Role of a user; each includes those before it. viewer: read. user: submit sessions and change their own. operator:
    change all sessions, agents, quotas and the policy. admin: manage users and keys, and read everything.
    """

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"


class SandboxProfile(StrEnum):
    """
    What a job can see of its node. standard: a read-only system, a private /tmp and /dev, its home and the operator's
    mounts, no processes of other jobs, no files of the server. The network is not restricted.
    """

    STANDARD = "standard"


class ServerRole(StrEnum):
    """Role of a server. The leader schedules, launches and receives the agents' reports; followers answer queries."""

    LEADER = "leader"
    FOLLOWER = "follower"


class ServiceState(StrEnum):
    """
    State of a web service: waiting for its session to start, running, or ended with it. Whether its program listens is
    known when it is opened.
    """

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class SessionAction(StrEnum):
    """What to do with several sessions."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    KEEP = "keep"
    RETRY = "retry"
    SET_PRIORITY = "set_priority"


class SessionOrder(StrEnum):
    """
    Sort order of sessions: by submission (newest, oldest), or by a value, ascending or descending. Equal values are
    ordered by submission; sessions without a value come last.
    """

    NEWEST = "newest"
    OLDEST = "oldest"
    PRIORITY_DESC = "priority_desc"
    PRIORITY_ASC = "priority_asc"
    STARTED_DESC = "started_desc"
    STARTED_ASC = "started_asc"
    ENDED_DESC = "ended_desc"
    ENDED_ASC = "ended_asc"
    GPUS_DESC = "gpus_desc"
    GPUS_ASC = "gpus_asc"
    NAME_DESC = "name_desc"
    NAME_ASC = "name_asc"


class SessionState(StrEnum):
    """
    State of a session. queued and held sessions wait; scheduled, allocating, running and preempting sessions hold
    devices; completed, failed and canceled are final.
    """

    QUEUED = "queued"
    HELD = "held"
    SCHEDULED = "scheduled"
    ALLOCATING = "allocating"
    RUNNING = "running"
    PREEMPTING = "preempting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class Severity(StrEnum):
    """Severity. Critical notices are sent during quiet hours too."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class TimeKind(StrEnum):
    """What device time was held for."""

    USED = "used"
    IDLE = "idle"
    LOST_FAILURE = "lost_failure"
    LOST_PREEMPTION = "lost_preemption"


class Topology(StrEnum):
    """
    How near to each other the kernels of a gang have to be: on as few switches as possible now, or all on one switch.
    Agents name their switch by the label `switch` or `rack`.
    """

    PREFER = "prefer"
    REQUIRE = "require"


class TuneApply(StrEnum):
    """What becomes of a better policy that a tuning finds: an operator applies it, or the server on trial."""

    MANUAL = "manual"
    AUTO = "auto"


class UsageBy(StrEnum):
    """Grouping of usage."""

    USER = "user"
    PROJECT = "project"


class Victims(StrEnum):
    """Deprecated names of `PreemptScope`: `nobody` is `none`, `willing` is `preemptible`."""

    NOBODY = "nobody"
    WILLING = "willing"
    ANY = "any"
