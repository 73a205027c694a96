"""Sessions: what was asked for, and where it stands."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.amounts import NameValue, SlotAmount
from aliquot_schema.graphql.enums import DependencyCondition, PreemptionCause, Reason, SessionState
from aliquot_schema.graphql.kernels import Kernel
from aliquot_schema.graphql.scalars import AnyPriority


@strawberry.type(description="A session that another one waits for.")
class Dependency:
    session_id: strawberry.ID = strawberry.field(description="The session waited for.")
    condition: DependencyCondition = strawberry.field(description="What it must come to.")
    state: SessionState | None = strawberry.field(description="Where it is; null when it is no longer kept.")


@strawberry.type(description="Why a session waits: one reason, in words, and with what it rests on.")
class Verdict:
    reason: Reason = strawberry.field(description="The primary reason.")
    message: str = strawberry.field(description="The reason in words.")
    slot: str | None = strawberry.field(description="The slot that is short.")
    requested: str | None = strawberry.field(description="How much of it one kernel needs.")
    available: str | None = strawberry.field(description="How much of it is free where most is.")
    fits_kernels: int | None = strawberry.field(description="How many kernels of the gang would fit now.")
    blocked_by: list[strawberry.ID] = strawberry.field(description="The sessions in the way.")
    agents: list[strawberry.ID] = strawberry.field(description="The agents concerned.")
    devices: list[strawberry.ID] = strawberry.field(description="The devices concerned.")
    until: datetime | None = strawberry.field(description="When it is known to be looked at again.")


@strawberry.type(description="Why a session failed: a code for programs, words for people.")
class Failure:
    code: str = strawberry.field(description="Stable.")
    message: str = strawberry.field(description="In words.")


@strawberry.type(description="A smaller request that a session settles for after a wait.")
class Fallback:
    slots: list[SlotAmount] = strawberry.field(description="What each kernel needs then.")
    cluster_size: int = strawberry.field(description="How many kernels then.")
    gpu_memory_gb: str | None = strawberry.field(description="The least memory per device then, in 10^9 bytes.")
    after: float = strawberry.field(description="Seconds since its submission after which it is taken.")


@strawberry.type(description="The last time that a session was asked to make room: who, why, and what it lost.")
class Preemption:
    cause: PreemptionCause = strawberry.field(description="By what right.")
    by_session: strawberry.ID | None = strawberry.field(description="The session that starts in its place.")
    by_user: str = strawberry.field(description="On whose behalf.")
    at: datetime = strawberry.field(description="When it was asked.")
    until: datetime = strawberry.field(description="When its grace ends, and it is stopped.")
    lost_gpu_seconds: float | None = strawberry.field(
        description="What its attempt had used; null until it has made room."
    )


@strawberry.type(description="Some tasks of a job array.")
class TaskSet:
    indices: str = strawberry.field(description="Like 0-99,105; empty when there are none.")
    count: int = strawberry.field(description="How many.")


@strawberry.type(description="Where the tasks of a job array are; each is in one of these sets.")
class ArrayTasks:
    waiting: TaskSet = strawberry.field(description="Not started yet; they have no session of their own.")
    active: TaskSet = strawberry.field(description="Sessions <array>_<index> that have not ended.")
    completed: TaskSet = strawberry.field(description="Ended well.")
    failed: TaskSet = strawberry.field(description="Failed.")
    canceled: TaskSet = strawberry.field(description="Canceled.")
    max_parallel: int | None = strawberry.field(description="So many are active at one time at most.")


@strawberry.type(
    description="How long a session is expected to run. It is ordered by this, and nothing is reserved by it."
)
class OrderEstimate:
    seconds: float = strawberry.field(description="The expected time.")
    explanation: str = strawberry.field(description="What that rests on, in a sentence.")


@strawberry.type(description="A part of a GPU that a session was given.")
class AllocatedGpu:
    node_id: strawberry.ID = strawberry.field(description="The host.")
    gpu_id: strawberry.ID = strawberry.field(description="The device.")
    share: float = strawberry.field(description="Of the device, 0 to 1.")
    memory_gb: float = strawberry.field(description="That part of the device's memory, in 10^9 bytes.")


@strawberry.type(description="A session: a command with resources, from submission to its end. In the queue, a job.")
class Session:
    id: strawberry.ID = strawberry.field(description="`ses_...`; sorts by time of submission.")
    version: int = strawberry.field(description="Counts its changes; for `expected_version`.")
    owner: str = strawberry.field(description="Who submitted it.")
    project: str = strawberry.field(description="The project it is charged to.")
    pool: str = strawberry.field(description="The pool of agents it runs in.")
    name: str | None = strawberry.field(description="What its owner calls it.")
    run_id: str | None = strawberry.field(description="The client's own id for it; need not be unique.")
    tags: list[NameValue] = strawberry.field(description="Its owner's labels.")
    command: list[str] = strawberry.field(description="Program and arguments; a shell string is run by /bin/sh -c.")
    slots: list[SlotAmount] = strawberry.field(description="What each kernel needs.")
    cluster_size: int = strawberry.field(description="How many kernels; all start or none.")
    gpu_memory_gb: str | None = strawberry.field(description="The least memory per device, in 10^9 bytes.")
    environment: list[NameValue] = strawberry.field(description="Variables added for its processes.")
    working_directory: str | None = strawberry.field(description="Where it starts; null is a folder of its own.")
    estimated_duration: float | None = strawberry.field(description="Seconds, as its owner estimates.")
    time_limit: float | None = strawberry.field(description="Seconds of wall time per attempt; then it is stopped.")
    max_retries: int = strawberry.field(description="How often it may be run again.")
    retry_count: int = strawberry.field(description="How often it was run again.")
    preemptible: bool = strawberry.field(description="Whether it may be asked to make room.")
    depends_on: list[Dependency] = strawberry.field(description="What it waits for.")
    priority: AnyPriority = strawberry.field(description="How urgent it is.")
    state: SessionState = strawberry.field(description="Where it is on its way.")
    attempt: int = strawberry.field(description="Counts the tries; 0 before the first.")
    queue_position: int | None = strawberry.field(description="From 1; null when it is not queued.")
    waits: Verdict | None = strawberry.field(description="Why it waits; null when it does not, or is not judged yet.")
    kernels: list[Kernel] = strawberry.field(description="The kernels of the newest attempt.")
    holds_devices: bool = strawberry.field(description="Whether any device is held for it, by any attempt.")
    queued_at: datetime = strawberry.field(description="When it was submitted.")
    scheduled_at: datetime | None = strawberry.field(description="When devices were granted.")
    started_at: datetime | None = strawberry.field(description="When all of its kernels ran.")
    ended_at: datetime | None = strawberry.field(description="When it ended.")
    exit_code: int | None = strawberry.field(description="Of the first rank that failed, else 0.")
    signal: int | None = strawberry.field(description="The signal that ended that rank.")
    failure: Failure | None = strawberry.field(description="Why it failed.")
    retries_own_failures: bool = strawberry.field(description="Whether it is tried again when its own command fails.")
    checkpoint_signal: str | None = strawberry.field(description="Sent first when it is to make room.")
    grace: float | None = strawberry.field(description="Seconds from that signal to the stop; null is the policy's.")
    labels: list[NameValue] = strawberry.field(description="Labels that its agents must have.")
    preferred_labels: list[NameValue] = strawberry.field(description="Labels that it would rather have.")
    models: list[str] = strawberry.field(description="Models that its accelerators may be of; empty is any.")
    preferred_models: list[str] = strawberry.field(description="Models that it would rather have.")
    fallbacks: list[Fallback] = strawberry.field(description="Smaller requests that it settles for, in time.")
    fallback_level: int = strawberry.field(description="How many of them it has taken; 0 is what it asked first.")
    preemptions: int = strawberry.field(description="How often it made room.")
    preemption: Preemption | None = strawberry.field(description="The last time that it was asked to.")
    held_by: str | None = strawberry.field(description="Who holds it back.")
    array_id: strawberry.ID | None = strawberry.field(description="The job array that it is a task of.")
    array_index: int | None = strawberry.field(description="Which task of it.")
    tasks: ArrayTasks | None = strawberry.field(description="Of a job array: where its tasks are.")
    order_estimate: OrderEstimate | None = strawberry.field(description="How long it is expected to run.")
    reserve_until: datetime | None = strawberry.field(
        description="When it is reckoned to have given its devices back at the latest; null when it holds none."
    )
    expected_start: datetime | None = strawberry.field(
        description="When it starts at the latest, if those that run keep to their limits; null without a reservation."
    )
    hidden: list[str] = strawberry.field(
        description="Fields that are not yours to see: null or empty here, whatever they are."
    )
    requested_gpus: float = strawberry.field(description="Of all kernels together; shares count as they are.")
    requested_memory_gb: str | None = strawberry.field(description="The least memory per device, in 10^9 bytes.")
    allocated_gpus: list[AllocatedGpu] = strawberry.field(description="What its newest attempt was given of GPUs.")
    allocation_time: datetime | None = strawberry.field(description="When devices were granted.")
    estimated_start_time: datetime | None = strawberry.field(description="The same as `expected_start`.")
    estimated_wait_time: float | None = strawberry.field(
        description="Seconds from its submission to `estimated_start_time`."
    )
    scheduling_policy: str = strawberry.field(description="By which policy it is decided now who is next.")
