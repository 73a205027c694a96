"""Enums.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from enum import StrEnum


class AgentOrder(StrEnum):
    """In which order agents are listed."""

    ID = "id"
    HOSTNAME = "hostname"


class AgentState(StrEnum):
    """How the server sees an agent. The devices of a lost one stay held: its jobs may still be running."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    LOST = "lost"
    LEFT = "left"


class AlertRule(StrEnum):
    """What an alert is opened for."""

    QUEUE_BACKLOG = "queue_backlog"
    LONG_WAIT = "long_wait"
    AGENT_LOST = "agent_lost"
    DEVICE_UNHEALTHY = "device_unhealthy"
    EXTERNAL_PROCESS = "external_process"
    FAILURE_RATE = "failure_rate"
    DISK_LOW = "disk_low"
    LEADER_CHANGED = "leader_changed"
    NO_LEADER = "no_leader"


class AlertState(StrEnum):
    """Whether an alert still holds."""

    OPEN = "open"
    CLOSED = "closed"


class AllocationMode(StrEnum):
    """How the devices of a node are divided among its agents."""

    SHARED = "shared"
    AUTO_SPLIT = "auto_split"
    MANUAL = "manual"


class Backfill(StrEnum):
    """Who may start before the head of the queue while the head does not fit."""

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"


class DeliveryState(StrEnum):
    """Where a notice for one receiver is: on its way, there, or given up after a day."""

    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given_up"


class DependencyCondition(StrEnum):
    """When a dependency is met: the other session ended well, ended at all, or failed."""

    AFTER_OK = "after_ok"
    AFTER_ANY = "after_any"
    AFTER_FAIL = "after_fail"


class DeviceAccess(StrEnum):
    """What keeps a kernel away from devices that it was not given: env is advisory, cgroup is enforced."""

    ENV = "env"
    CGROUP = "cgroup"


class DeviceHealth(StrEnum):
    """Whether a device may be given to somebody new."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    GONE = "gone"


class Discrepancy(StrEnum):
    """What does not agree: the store, what an agent has, and what runs on its devices."""

    LEASE_WITHOUT_PROCESS = "lease_without_process"
    PROCESS_WITHOUT_LEASE = "process_without_lease"
    PROCESS_AFTER_END = "process_after_end"
    SPEC_WITHOUT_LEASE = "spec_without_lease"
    SPEC_DIFFERS = "spec_differs"
    DEVICE_GONE = "device_gone"
    DEVICE_UNHEALTHY = "device_unhealthy"
    EXTERNAL_PROCESS = "external_process"


class Isolation(StrEnum):
    """What keeps two holders of one device apart; each promises more than the one before."""

    NONE = "none"
    MPS = "mps"
    MIG = "mig"


class KernelState(StrEnum):
    """Where one rank of an attempt is. Its devices are free when it is exited, and not before."""

    GRANTED = "granted"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    UNKNOWN = "unknown"


class KeyScope(StrEnum):
    """What a key allows at most, whatever its owner's role."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"


class LeaseKind(StrEnum):
    """By what right a device is held: a session's kernel, a person, or a booking."""

    SESSION = "session"
    MANUAL = "manual"
    RESERVATION = "reservation"


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
    SESSION_PREEMPTED = "session_preempted"
    SESSION_COMPLETED = "session_completed"
    TEST = "test"


class OrchestratorState(StrEnum):
    """Whether anything new is placed; sessions that run and submissions go on in any case."""

    RUNNING = "running"
    STOPPED = "stopped"


class PreemptionCause(StrEnum):
    """
    By what right a session was asked to make room: for a higher priority, for the owner of lent quota, because its
    agent is drained, or because a device of its is gone.
    """

    PRIORITY = "priority"
    QUOTA = "quota"
    DRAIN = "drain"
    DEVICE = "device"


class QuotaScope(StrEnum):
    """Whom a quota is for: a user, a project, or the cluster as a whole."""

    USER = "user"
    PROJECT = "project"
    CLUSTER = "cluster"


class Reason(StrEnum):
    """Why a session is not placed. The first that holds, in this order, is given."""

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
    INSUFFICIENT = "insufficient"
    FRAGMENTED = "fragmented"
    GANG_INCOMPLETE = "gang_incomplete"


class Role(StrEnum):
    """
    What somebody may do: look; submit, and change what is his own; change everybody's sessions, agents, quotas and the
    policy; make users and keys.
    """

    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMIN = "admin"


class SandboxProfile(StrEnum):
    """
    What a job sees of its node. standard: a read-only system, a /tmp and /dev of its own, its home and what the
    operator mounts, no processes of others and nothing of the server's; the network is as it is.
    """

    STANDARD = "standard"


class ServerRole(StrEnum):
    """What a server does beside answering: the leader decides, launches and listens to agents."""

    LEADER = "leader"
    FOLLOWER = "follower"


class SessionOrder(StrEnum):
    """
    In which order sessions are listed: by the time they were submitted, or by a value, asc or desc. Those that are
    alike in it follow by the time they were submitted; those that have no such time or name are last.
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
    Where a session is on its way: queued or held, scheduled, allocating, running, preempting, and for good completed,
    failed or canceled.
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
    """How much it matters. What is critical is told in quiet hours too."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class UsageBy(StrEnum):
    """Whose usage is added up."""

    USER = "user"
    PROJECT = "project"


class Victims(StrEnum):
    """
    Who may be asked to make room: nobody, those who said that they are willing, or any. What a quota says is its
    owner's is called back from those who own none of it, willing or not.
    """

    NOBODY = "nobody"
    WILLING = "willing"
    ANY = "any"
