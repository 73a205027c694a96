"""Sessions.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.amounts import NameValue, SlotAmount
from aliquot.client.generated.enums import DependencyCondition, PreemptionCause, Reason, SessionState
from aliquot.client.generated.kernels import Kernel


class AllocatedGpu(Struct, frozen=True, kw_only=True):
    """A part of a GPU that a session was given."""

    node_id: str
    """The host."""
    gpu_id: str
    """The device."""
    share: float
    """Of the device, 0 to 1."""
    memory_gb: float
    """That part of the device's memory, in 10^9 bytes."""


class TaskSet(Struct, frozen=True, kw_only=True):
    """Some tasks of a job array."""

    indices: str
    """Like 0-99,105; empty when there are none."""
    count: int
    """How many."""


class ArrayTasks(Struct, frozen=True, kw_only=True):
    """Where the tasks of a job array are; each is in one of these sets."""

    waiting: TaskSet
    """Not started yet; they have no session of their own."""
    active: TaskSet
    """Sessions <array>_<index> that have not ended."""
    completed: TaskSet
    """Ended well."""
    failed: TaskSet
    """Failed."""
    canceled: TaskSet
    """Canceled."""
    max_parallel: int | None
    """So many are active at one time at most."""


class Dependency(Struct, frozen=True, kw_only=True):
    """A session that another one waits for."""

    session_id: str
    """The session waited for."""
    condition: DependencyCondition
    """What it must come to."""
    state: SessionState | None
    """Where it is; null when it is no longer kept."""


class Failure(Struct, frozen=True, kw_only=True):
    """Why a session failed: a code for programs, words for people."""

    code: str
    """Stable."""
    message: str
    """In words."""


class Fallback(Struct, frozen=True, kw_only=True):
    """A smaller request that a session settles for after a wait."""

    slots: tuple[SlotAmount, ...]
    """What each kernel needs then."""
    cluster_size: int
    """How many kernels then."""
    gpu_memory_gb: str | None
    """The least memory per device then, in 10^9 bytes."""
    after: float
    """Seconds since its submission after which it is taken."""


class OrderEstimate(Struct, frozen=True, kw_only=True):
    """How long a session is expected to run. It is ordered by this, and nothing is reserved by it."""

    seconds: float
    """The expected time."""
    explanation: str
    """What that rests on, in a sentence."""


class Preemption(Struct, frozen=True, kw_only=True):
    """The last time that a session was asked to make room: who, why, and what it lost."""

    cause: PreemptionCause
    """By what right."""
    by_session: str | None
    """The session that starts in its place."""
    by_user: str
    """On whose behalf."""
    at: datetime
    """When it was asked."""
    until: datetime
    """When its grace ends, and it is stopped."""
    lost_gpu_seconds: float | None
    """What its attempt had used; null until it has made room."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Why a session waits: one reason, in words, and with what it rests on."""

    reason: Reason
    """The primary reason."""
    message: str
    """The reason in words."""
    slot: str | None
    """The slot that is short."""
    requested: str | None
    """How much of it one kernel needs."""
    available: str | None
    """How much of it is free where most is."""
    fits_kernels: int | None
    """How many kernels of the gang would fit now."""
    blocked_by: tuple[str, ...]
    """The sessions in the way."""
    agents: tuple[str, ...]
    """The agents concerned."""
    devices: tuple[str, ...]
    """The devices concerned."""
    until: datetime | None
    """When it is known to be looked at again."""


class Session(Struct, frozen=True, kw_only=True):
    """A session: a command with resources, from submission to its end. In the queue, a job."""

    id: str
    """`ses_...`; sorts by time of submission."""
    version: int
    """Counts its changes; for `expected_version`."""
    owner: str
    """Who submitted it."""
    project: str
    """The project it is charged to."""
    pool: str
    """The pool of agents it runs in."""
    name: str | None
    """What its owner calls it."""
    run_id: str | None
    """The client's own id for it; need not be unique."""
    tags: tuple[NameValue, ...]
    """Its owner's labels."""
    command: tuple[str, ...]
    """Program and arguments; a shell string is run by /bin/sh -c."""
    slots: tuple[SlotAmount, ...]
    """What each kernel needs."""
    cluster_size: int
    """How many kernels; all start or none."""
    gpu_memory_gb: str | None
    """The least memory per device, in 10^9 bytes."""
    environment: tuple[NameValue, ...]
    """Variables added for its processes."""
    working_directory: str | None
    """Where it starts; null is a folder of its own."""
    estimated_duration: float | None
    """Seconds, as its owner estimates."""
    time_limit: float | None
    """Seconds of wall time per attempt; then it is stopped."""
    max_retries: int
    """How often it may be run again."""
    retry_count: int
    """How often it was run again."""
    preemptible: bool
    """Whether it may be asked to make room."""
    depends_on: tuple[Dependency, ...]
    """What it waits for."""
    priority: str
    """How urgent it is."""
    state: SessionState
    """Where it is on its way."""
    attempt: int
    """Counts the tries; 0 before the first."""
    queue_position: int | None
    """From 1; null when it is not queued."""
    waits: Verdict | None
    """Why it waits; null when it does not, or is not judged yet."""
    kernels: tuple[Kernel, ...]
    """The kernels of the newest attempt."""
    holds_devices: bool
    """Whether any device is held for it, by any attempt."""
    queued_at: datetime
    """When it was submitted."""
    scheduled_at: datetime | None
    """When devices were granted."""
    started_at: datetime | None
    """When all of its kernels ran."""
    ended_at: datetime | None
    """When it ended."""
    exit_code: int | None
    """Of the first rank that failed, else 0."""
    signal: int | None
    """The signal that ended that rank."""
    failure: Failure | None
    """Why it failed."""
    retries_own_failures: bool
    """Whether it is tried again when its own command fails."""
    checkpoint_signal: str | None
    """Sent first when it is to make room."""
    grace: float | None
    """Seconds from that signal to the stop; null is the policy's."""
    labels: tuple[NameValue, ...]
    """Labels that its agents must have."""
    preferred_labels: tuple[NameValue, ...]
    """Labels that it would rather have."""
    models: tuple[str, ...]
    """Models that its accelerators may be of; empty is any."""
    preferred_models: tuple[str, ...]
    """Models that it would rather have."""
    fallbacks: tuple[Fallback, ...]
    """Smaller requests that it settles for, in time."""
    fallback_level: int
    """How many of them it has taken; 0 is what it asked first."""
    preemptions: int
    """How often it made room."""
    preemption: Preemption | None
    """The last time that it was asked to."""
    held_by: str | None
    """Who holds it back."""
    array_id: str | None
    """The job array that it is a task of."""
    array_index: int | None
    """Which task of it."""
    tasks: ArrayTasks | None
    """Of a job array: where its tasks are."""
    order_estimate: OrderEstimate | None
    """How long it is expected to run."""
    reserve_until: datetime | None
    """When it is reckoned to have given its devices back at the latest; null when it holds none."""
    expected_start: datetime | None
    """When it starts at the latest, if those that run keep to their limits; null without a reservation."""
    hidden: tuple[str, ...]
    """Fields that are not yours to see: null or empty here, whatever they are."""
    requested_gpus: float
    """Of all kernels together; shares count as they are."""
    requested_memory_gb: str | None
    """The least memory per device, in 10^9 bytes."""
    allocated_gpus: tuple[AllocatedGpu, ...]
    """What its newest attempt was given of GPUs."""
    allocation_time: datetime | None
    """When devices were granted."""
    estimated_start_time: datetime | None
    """The same as `expected_start`."""
    estimated_wait_time: float | None
    """Seconds from its submission to `estimated_start_time`."""
    scheduling_policy: str
    """By which policy it is decided now who is next."""
