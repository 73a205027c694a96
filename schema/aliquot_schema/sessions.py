"""Sessions: what a user submits, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Final

from aliquot_schema.confinement import NO_LIMITS, SandboxProfile, SessionLimits
from aliquot_schema.ids import AgentId, PoolId, ProjectId, SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.secrets import SecretUse
from aliquot_schema.slots import AMOUNT_MAX, MILLI, ResourceSlot, Unlimited, scale_of
from aliquot_schema.states import ENDED, PENDING, SessionState

COMMAND_BYTES_MAX: Final = 128 * 1024
"""argv and environment strings of one kernel share the kernel's limit per string; a command is refused above this."""
CLUSTER_SIZE_MAX: Final = 4096
TAGS_MAX: Final = 64
ENVIRONMENT_MAX: Final = 512
DEPENDENCIES_MAX: Final = 256
RETRIES_MAX: Final = 100
FALLBACKS_MAX: Final = 8
NO_INDICES: Final = Intervals()
ARRAY_TASKS_MAX: Final = 100_000
BATCH_SESSIONS_MAX: Final = 1000
"""Sessions of one `create_sessions`."""
DURATION_S_MAX: Final = 10 * 365 * 86_400
HELD_BY_ARRAY: Final = UserId("system:array")
"""Holds back a task that is to run again until its array lets so many run; its index waits in the array."""

DEFAULT_POOL: Final = PoolId("default")
DEFAULT_PROJECT: Final = ProjectId("default")


class Priority(IntEnum):
    """How urgent a session is. Names and numbers are both accepted."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


class DependencyCondition(StrEnum):
    """When a dependency is met: the other session ended well, ended at all, or failed."""

    AFTER_OK = "after_ok"
    AFTER_ANY = "after_any"
    AFTER_FAIL = "after_fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A session to wait for."""

    session_id: SessionId
    condition: DependencyCondition = DependencyCondition.AFTER_OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """A smaller request, taken after a wait. Once taken, nothing makes the session grow back."""

    slots: ResourceSlot
    """Per kernel, in place of what was asked first."""
    cluster_size: int
    gpu_memory_bytes: int | None
    after_ms: int
    """The wait since submission; each is longer than the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """What was asked for. Never changes."""

    argv: tuple[str, ...]
    """The program and its arguments; a shell string became `/bin/sh -c STRING`."""
    slots: ResourceSlot
    """Per kernel."""
    cluster_size: int = 1
    """Kernels in the gang."""
    gpu_memory_bytes: int | None = None
    """The least memory per device: all of it for whole devices, share x total for fractions."""
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    estimated_duration_ms: int | None = None
    time_limit_ms: int | None = None
    """Wall time of an attempt; the shim stops it then."""
    max_retries: int = 0
    retries_own_failures: bool = False
    """Whether it is tried again also when its own command fails, within `max_retries`."""
    preemptible: bool = False
    """Whether it may be asked to make room; it is then queued again, with the same CHECKPOINT_DIR."""
    checkpoint_signal: int | None = None
    """Sent first when it is to make room; None = it gets the stop signal alone."""
    grace_ms: int | None = None
    """From that signal to the stop; None = as the policy says."""
    depends_on: tuple[Dependency, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that an agent must have."""
    preferred_labels: Mapping[str, str] = field(default_factory=dict)
    """Agents with these are taken where the whole session fits on such agents now."""
    models: tuple[str, ...] = ()
    """Models that its accelerators may be of, `*` and `?` allowed, whatever the case; empty = any."""
    preferred_models: tuple[str, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    """By `after_ms`."""
    outside_ms: int | None = None
    """Of work that is run outside: so long it holds its devices from each call on. Nothing is started for it, and it
    does not wait: it gets them in the first pass that looks at it, or not at all. None = it runs `argv`."""
    limits: SessionLimits = NO_LIMITS
    sandbox: SandboxProfile | None = None
    """Which it demands; then `labels` has `SANDBOX_LABEL` too, so that it goes only where there is one."""
    secrets: tuple[SecretUse, ...] = ()
    """What of its owner's it is given; never the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a session failed, for people (`message`) and for programs (`code`)."""

    code: str
    message: str


class PreemptionCause(StrEnum):
    """By what right a session was asked to make room."""

    PRIORITY = "priority"
    """For a session of a higher level."""
    QUOTA = "quota"
    """It ran on lent quota, and the owner needs it."""
    DRAIN = "drain"
    """Its agent was drained."""
    DEVICE = "device"
    """A device of its was gone, and the others were of no use to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionReceipt:
    """The last time that a session was asked to make room: who, why, and what it lost."""

    cause: PreemptionCause
    by_session: SessionId | None
    """The session that starts in its place; None when there is none, see `cause`."""
    by_user: UserId
    at_us: int
    until_us: int
    """When its grace ends, and it is stopped."""
    lost_ms: int | None = None
    """Milli of a device x milliseconds that its attempt had used; known once it has made room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasks:
    """Where the tasks of a job array are; each index is in exactly one of these sets, or active."""

    waiting: Intervals
    """Not split off yet: no session of their own."""
    active: Intervals = NO_INDICES
    """Split off, and not ended; these are sessions `<array>_<index>`."""
    completed: Intervals = NO_INDICES
    failed: Intervals = NO_INDICES
    canceled: Intervals = NO_INDICES
    max_parallel: int | None = None
    """So many are active at one time at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as the store holds it. Times are microseconds UTC."""

    id: SessionId
    version: int
    owner: UserId
    project: ProjectId = DEFAULT_PROJECT
    pool: PoolId = DEFAULT_POOL
    name: str | None = None
    run_id: str | None = None
    """The client's own name for it; need not be unique."""
    tags: Mapping[str, str] = field(default_factory=dict)
    spec: SessionSpec
    priority: Priority = Priority.NORMAL
    state: SessionState = SessionState.QUEUED
    attempt: int = 0
    """Counts the tries; 0 before the first grant."""
    retries: int = 0
    excluded_agents: tuple[AgentId, ...] = ()
    """Agents that refused it for good (no such slot); not tried again."""
    not_before_us: int | None = None
    queued_us: int
    """When it was submitted; keeps its place over retries."""
    scheduled_us: int | None = None
    started_us: int | None = None
    ended_us: int | None = None
    exit_code: int | None = None
    """Of the first rank that failed, else 0. Negative numbers are not used: see `signal`."""
    signal: int | None = None
    failure: Failure | None = None
    idempotency_key: str | None = None
    request_hash: str | None = None
    held_by: UserId | None = None
    """Who holds it back, in state `held`."""
    fallback_level: int = 0
    """How many of `spec.fallbacks` have been taken: 0 = it asks for what was asked first."""
    preemptions: int = 0
    """How often it made room."""
    preemption: PreemptionReceipt | None = None
    array_id: SessionId | None = None
    """The job array that it is a task of."""
    array_index: int | None = None
    tasks: ArrayTasks | None = None
    """Of a job array; a session that is none has None."""

    @property
    def is_ended(self) -> bool:
        """Whether it reached a state that it will never leave."""
        return self.state in ENDED

    @property
    def gpus_milli(self) -> int:
        """What all its kernels ask for of accelerators at first, in milli of one; never changes."""
        return min(_milli_of(self.spec.slots) * self.spec.cluster_size, AMOUNT_MAX)

    @property
    def request(self) -> Fallback | SessionSpec:
        """Where `slots`, `cluster_size` and `gpu_memory_bytes` are what it asks for now: in the fallback taken last, or
        in what was asked first."""
        return self.spec.fallbacks[self.fallback_level - 1] if self.fallback_level else self.spec

    @property
    def slots(self) -> ResourceSlot:
        """What each kernel asks for now, see `request`."""
        return self.request.slots

    @property
    def is_outside(self) -> bool:
        """Whether it holds devices for work that is run outside."""
        return self.spec.outside_ms is not None

    @property
    def is_pending(self) -> bool:
        """Whether it waits, with no devices of its own."""
        return self.state in PENDING


@lru_cache(maxsize=4096)
def _milli_of(slots: ResourceSlot) -> int:
    """Whole devices and shares together. Most sessions ask for what many others ask for."""
    return sum(
        AMOUNT_MAX if isinstance(amount, Unlimited) else amount * MILLI // scale_of(slot)
        for slot, amount in slots.items()
        if slot.endswith((".device", ".shares"))
    )
