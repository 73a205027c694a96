"""Sessions: the request a user submits, its state and its result."""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Final
from zlib import crc32

from msgspec import Struct, field

from aliquot_schema.enums import DescribedStr
from aliquot_schema.identity.secrets import SecretUse
from aliquot_schema.ids import AgentId, BookingId, KernelId, KeyId, PoolId, ProjectId, SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.metrics import MetricPattern
from aliquot_schema.resources.confinement import NO_LIMITS, SandboxProfile, SessionLimits
from aliquot_schema.resources.slots import AMOUNT_MAX, MILLI, ResourceSlot, Unlimited, scale_of
from aliquot_schema.states import ENDED, PENDING, SessionState

COMMAND_BYTES_MAX: Final = 128 * 1024
"""Longer commands are rejected: the Linux kernel limits each string of argv and the environment to this."""
CLUSTER_SIZE_MAX: Final = 4096
TAGS_MAX: Final = 64
ENVIRONMENT_MAX: Final = 512
DEPENDENCIES_MAX: Final = 256
RETRIES_MAX: Final = 100
FALLBACKS_MAX: Final = 8
UV: Final = "uv"
"""The environment of the workspace's own `uv.lock`."""
ENVIRONMENT_CHARS_MAX: Final = 1024
IMAGE_CHARS_MAX: Final = 512
APPS_MAX: Final = 8
"""Apps of a session."""
NO_INDICES: Final = Intervals()
ARRAY_TASKS_MAX: Final = 100_000
BATCH_SESSIONS_MAX: Final = 1000
"""Sessions per `create_sessions`."""
DURATION_S_MAX: Final = 10 * 365 * 86_400
HELD_BY_ARRAY: Final = UserId("system:array")
"""Holder of a task that is to run again but waits for its array's `max_parallel`; its index waits in the array."""

DEFAULT_POOL: Final = PoolId("default")
DEFAULT_PROJECT: Final = ProjectId("default")


class Priority(IntEnum):
    """How urgent a session is. Names and numbers are both accepted."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


PRIORITIES: Final = {name: level for level in Priority for name in (str(level.value), level.name.lower())}
"""By number and by name."""
PRIORITY_FORM: Final = "low, normal, high or critical, or a number from 1 (low) to 4 (critical)"


class DependencyCondition(DescribedStr):
    """Condition of a dependency: the other session succeeded, ended in any way, or failed."""

    AFTER_OK = "after_ok", "The other session has completed."
    AFTER_ANY = "after_any", "The other session has ended in any state."
    AFTER_FAIL = "after_fail", "The other session has failed."


class Topology(DescribedStr):
    """How near to each other the kernels of a gang have to be. Agents name their switch by a label."""

    PREFER = "prefer", "On as few switches as possible now."
    REQUIRE = "require", "All on one switch; the session waits until they fit there."


class Dependency(Struct, frozen=True, kw_only=True):
    """A session to wait for."""

    session_id: SessionId
    condition: DependencyCondition = DependencyCondition.AFTER_OK


class Fallback(Struct, frozen=True, kw_only=True):
    """A smaller request that replaces the original one after a wait, for good."""

    slots: ResourceSlot
    """Per kernel."""
    cluster_size: int
    gpu_memory_bytes: int | None
    after_ms: int
    """Wait since submission; ascending from fallback to fallback."""


PREFLIGHT_LIMIT_MS: Final = 60_000
PREFLIGHT_LIMIT_S_MAX: Final = 3600
PREFLIGHT_REPLACEMENTS_MAX: Final = 3
"""How often a session is queued again because its preflight failed, before it fails."""
PREFLIGHT_FAILED: Final = "preflight_failed"
"""Code of a launch that ended because its preflight failed, and of the failure of a session without a node left."""


class Preflight(Struct, frozen=True, kw_only=True):
    """A check on the granted devices of every rank, before the command of any rank starts."""

    argv: tuple[str, ...] = ()
    """Program and arguments; empty = the agent's own check, a bandwidth test where CUDA is there."""
    limit_ms: int = PREFLIGHT_LIMIT_MS
    """A check that runs longer has failed."""


class PreflightFailures(Struct, frozen=True, kw_only=True):
    """The failed preflights of a session since it was submitted or run again."""

    failures: int
    """Attempts that ended by one."""
    attempt: int
    """The last of them; the next three fields are of that attempt's first failed rank."""
    agent_id: AgentId
    message: str
    """With the end of the check's output."""
    at_us: int


class ImagePull(Struct, frozen=True, kw_only=True):
    """The pull of a session's image on one of its agents. Times are microseconds UTC."""

    attempt: int
    rank: int
    """The rank that is followed: of a gang, one at a time."""
    agent_id: AgentId
    began_us: int
    ended_us: int | None = None
    bytes_done: int = 0
    """Of the layers, compressed; `bytes_total` grows while layers are found."""
    bytes_total: int = 0
    layers_done: int = 0
    layers: int = 0
    size_bytes: int | None = None
    """Size of the image on the node; None = it is not there yet, or unknown."""


class SessionSpec(Struct, frozen=True, kw_only=True):
    """The request as validated. Immutable."""

    argv: tuple[str, ...]
    """Program and arguments; a shell string is `/bin/sh -c STRING`."""
    slots: ResourceSlot
    """Per kernel."""
    cluster_size: int = 1
    """Kernels in the gang."""
    cluster_size_min: int | None = None
    """The fewest kernels that an elastic gang starts with; None = it starts whole."""
    gpu_memory_bytes: int | None = None
    """Minimum memory per device: its total for whole devices, share x total for fractions."""
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    estimated_duration_ms: int | None = None
    time_limit_ms: int | None = None
    """Wall-time limit of an attempt, enforced by the shim."""
    max_retries: int = 0
    retries_own_failures: bool = False
    """Whether a failure of its own command is retried too, within `max_retries`."""
    preemptible: bool = False
    """Whether it may be preempted; a preempted session is queued again with the same CHECKPOINT_DIR."""
    checkpoint_signal: int | None = None
    """Signal sent every `checkpoint_every_ms`, before the time limit, and when it is preempted; None = only the stop
    signal is sent."""
    checkpoint_every_ms: int | None = None
    """How often it saves its work and acknowledges it; None = it makes no such promise."""
    grace_ms: int | None = None
    """Time from that signal to the stop; None = the policy's."""
    depends_on: tuple[Dependency, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that an agent must have."""
    preferred_labels: Mapping[str, str] = field(default_factory=dict)
    """Agents with these labels are preferred if the whole session fits on them now."""
    models: tuple[str, ...] = ()
    """Allowed accelerator models: case-insensitive patterns with `*` and `?`; empty = any."""
    preferred_models: tuple[str, ...] = ()
    topology: Topology = Topology.PREFER
    fallbacks: tuple[Fallback, ...] = ()
    """Ordered by `after_ms`."""
    outside_ms: int | None = None
    """Lease time of an external allocation, renewed by each call. Nothing is started for it, and it never queues: the
    first pass either places it or rejects it. None = an ordinary session that runs `argv`. The name is that of the
    stored field, which all versions read."""
    limits: SessionLimits = NO_LIMITS
    sandbox: SandboxProfile | None = None
    """The sandbox it requires. `labels` then has `SANDBOX_LABEL` too, so that only agents with that sandbox match."""
    secrets: tuple[SecretUse, ...] = ()
    """Names of the owner's secrets that its kernels receive; never the values."""
    metrics: tuple[MetricPattern, ...] = ()
    """Metrics in its output, besides those of lines `::metric`."""
    booking: BookingId | None = None
    """The booking whose devices it uses; once that is over, it is an ordinary session."""
    apps: Mapping[str, int] = field(default_factory=dict)
    """Web services of rank 0 that the server passes on: TCP ports by name; 0 = see `app_port`. A name is part of a host
    name."""
    workspace: str | None = None
    """Id of the owner's workspace that is unpacked into the working directory, see `cluster.workspaces`."""
    activates: str | None = None
    """Environment that is activated before the command: `uv`, or the absolute path of a venv or conda environment."""
    image: str | None = None
    """Container image that its command runs in. `labels` then has `IMAGES_LABEL` too, so that only agents that can run
    containers match."""
    shares_access: bool = False
    """Whether members of its project may open its terminals, ports and apps."""
    preflight: Preflight | None = None
    """None = its command starts without a check."""


APP_PORTS: Final = range(20_000, 29_500)
"""Below the ports that kernels use for MASTER_PORT and for outgoing connections."""


def app_port(kernel: KernelId, name: str, given: int) -> int:
    """The port of an app: the given one, or for 0 one that depends on the kernel, so that apps of several sessions on
    one node, and of the attempts of one session, seldom meet."""
    return given or APP_PORTS[crc32(f"{kernel}/{name}".encode()) % len(APP_PORTS)]


class Failure(Struct, frozen=True, kw_only=True):
    """Why a session failed: `code` for programs, `message` for users."""

    code: str
    message: str


class PreemptionCause(DescribedStr):
    """Cause of a preemption."""

    PRIORITY = "priority", "A session of a higher priority needs its devices."
    ORDER = "order", "A session that comes before it under a preemptive order needs its devices."
    QUOTA = "quota", "It ran on borrowed quota that the owner needs."
    DRAIN = "drain", "Its agent was drained."
    EVICTION = "eviction", "Its node is about to be taken away, or leaves at a known time."
    BOOKING = "booking", "It ran on booked devices that the booking needs."
    DEVICE = "device", "One of its devices was lost, so it cannot use the others."
    IDLE = "idle", "It did not use its GPUs, its owner got two notices, and a waiting session starts for it."
    GROW = (
        "grow",
        "An elastic gang restarts with more kernels: there is room, and the gain exceeds what the restart costs.",
    )


class PreemptionReceipt(Struct, frozen=True, kw_only=True):
    """A session's last preemption: for whose benefit, why, and how much work was lost."""

    cause: PreemptionCause
    by_session: SessionId | None
    """The session that it was preempted for; None = none, see `cause`."""
    by_user: UserId
    at_us: int
    until_us: int
    """End of its grace period; it is stopped then."""
    lost_ms: int | None = None
    """Milli of a device x milliseconds that the attempt had used since its last acknowledged checkpoint; known once
    the attempt has ended."""
    kept_ms: int = 0
    """Run time of all attempts so far whose work it kept, see `Session.kept_ms`."""


class SavedWork(Struct, frozen=True, kw_only=True):
    """What a session's last acknowledged checkpoint holds, and the work that its attempts lost.

    A checkpoint is acknowledged by the file `CHECKPOINT_DIR/DONE` of rank 0, or by `CHECKPOINT_EXIT_CODE`. Lost work
    counts milli of a device x milliseconds, at the rates of the policy's charges.
    """

    kept_ms: int = 0
    """Run time of all attempts whose work that checkpoint holds."""
    saved_us: int | None = None
    """When the last one was acknowledged; None = never."""
    agent_id: AgentId | None = None
    """The agent that has it."""
    attempt: int = 0
    """The newest attempt that is known to have started."""
    began_ms: int = 0
    """`kept_ms` of the checkpoint that this attempt started from; 0 = it started from nothing."""
    note: str | None = None
    """Why it started from less than the last acknowledged checkpoint; None = it did not."""
    lost_ms: int = 0
    """Work lost by requeues, all attempts together."""
    credited_ms: int = 0
    """Part of `lost_ms` that was credited to its owner."""
    credited_run_ms: int = 0
    """Run time in which the credited part was used."""


class Extension(Struct, frozen=True, kw_only=True):
    """The last request for a later time limit of a running session."""

    attempt: int
    """The attempt it was asked for."""
    time_limit_ms: int
    """The time limit asked for, of the whole attempt."""
    is_open: bool = True
    """Whether the next scheduling pass decides about it."""
    refusal: str | None = None
    """Who would start later for it, as a sentence; None = it was granted, or is not decided."""

    def is_granted(self, attempt: int) -> bool:
        """Whether it was granted for this attempt."""
        return not self.is_open and self.refusal is None and self.attempt == attempt


CHECKPOINT_DONE: Final = "DONE"
"""Name of the file in CHECKPOINT_DIR that acknowledges a checkpoint whenever it is written or replaced."""
CHECKPOINT_EXIT_CODE: Final = 85
"""Exit code of a program that saved its work before it ended; also HTCondor's example of one."""


class ArrayTasks(Struct, frozen=True, kw_only=True):
    """The tasks of a job array by state; each index is in exactly one of these sets."""

    waiting: Intervals
    """Tasks without a session of their own."""
    active: Intervals = NO_INDICES
    """Tasks with a session `<array>_<index>` that has not ended."""
    completed: Intervals = NO_INDICES
    failed: Intervals = NO_INDICES
    canceled: Intervals = NO_INDICES
    max_parallel: int | None = None
    """Limit on `active`; None = no limit."""


class Session(Struct, frozen=True, kw_only=True):
    """A session as the store holds it. Times are microseconds UTC."""

    id: SessionId
    version: int
    owner: UserId
    project: ProjectId = DEFAULT_PROJECT
    pool: PoolId = DEFAULT_POOL
    name: str | None = None
    run_id: str | None = None
    """The client's own id; need not be unique."""
    tags: Mapping[str, str] = field(default_factory=dict)
    spec: SessionSpec
    priority: Priority = Priority.NORMAL
    state: SessionState = SessionState.QUEUED
    attempt: int = 0
    """Number of the current attempt; 0 before the first grant."""
    retries: int = 0
    excluded_agents: tuple[AgentId, ...] = ()
    """Agents that rejected it permanently (no such slot); not tried again."""
    not_before_us: int | None = None
    queued_us: int
    """When it was submitted; unchanged by retries, so that it keeps its place in the queue."""
    scheduled_us: int | None = None
    started_us: int | None = None
    ended_us: int | None = None
    exit_code: int | None = None
    """Of the first rank that failed, else 0. Never negative: see `signal`."""
    signal: int | None = None
    failure: Failure | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None
    held_by: UserId | None = None
    """The user or system part that holds it, in state `held`."""
    fallback_level: int = 0
    """Number of `spec.fallbacks` applied; 0 = the original request is in force."""
    preemptions: int = 0
    """How often it was preempted."""
    preemption: PreemptionReceipt | None = None
    array_id: SessionId | None = None
    """The job array it is a task of."""
    array_index: int | None = None
    tasks: ArrayTasks | None = None
    """Set only on a job array."""
    work: SavedWork | None = None
    """None = it never acknowledged a checkpoint and never lost work."""
    extension: Extension | None = None
    """None = its time limit was never asked to be later while it ran."""
    key_id: KeyId | None = None
    """The API key that it was submitted with; its use counts in the key's budget."""
    preflight: PreflightFailures | None = None
    """None = no preflight of it has failed."""
    pull: ImagePull | None = None
    """None = its image was on its agents already, or it has none."""

    @property
    def kept_ms(self) -> int:
        """Run time of its earlier attempts whose work it kept.

        A session with a checkpoint signal that neither promised nor acknowledged a checkpoint is taken to have saved
        its work when it was preempted.
        """
        if self.work is not None and self.work.saved_us is not None:
            return self.work.kept_ms
        return 0 if self.preemption is None else self.preemption.kept_ms

    @property
    def kept_at_start_ms(self) -> int:
        """Run time of earlier attempts whose work the present attempt continues, or the next one will."""
        return self.work.began_ms if self.work is not None and self.work.attempt == self.attempt else self.kept_ms

    @property
    def is_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED

    @property
    def gpus_milli(self) -> int:
        """Accelerators in the original request, all kernels together, in milli of a device; constant."""
        return min(_milli_of(self.spec.slots) * self.spec.cluster_size, AMOUNT_MAX)

    @property
    def request(self) -> Fallback | SessionSpec:
        """The request in force: the last applied fallback, or the original spec."""
        level = min(self.fallback_level, len(self.spec.fallbacks))
        return self.spec.fallbacks[level - 1] if level else self.spec

    @property
    def slots(self) -> ResourceSlot:
        """Slots per kernel of the request in force."""
        return self.request.slots

    @property
    def kernels_min(self) -> int:
        """The fewest kernels that it starts with, by the request in force."""
        size = self.request.cluster_size
        return size if self.spec.cluster_size_min is None else min(self.spec.cluster_size_min, size)

    @property
    def is_external_allocation(self) -> bool:
        """Whether it is an external allocation."""
        return self.spec.outside_ms is not None

    @property
    def is_pending(self) -> bool:
        """Whether it waits without devices."""
        return self.state in PENDING


@lru_cache(maxsize=4096)
def _milli_of(slots: ResourceSlot) -> int:
    """Whole devices and shares together. Cached because most sessions share few distinct requests."""
    return sum(
        AMOUNT_MAX if isinstance(amount, Unlimited) else amount * MILLI // scale_of(slot)
        for slot, amount in slots.items()
        if slot.endswith((".device", ".shares"))
    )
