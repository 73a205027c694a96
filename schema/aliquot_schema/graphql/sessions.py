"""Sessions: what was asked for, and where it stands."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.amounts import NameValue, SlotAmount
from aliquot_schema.graphql.enums import DependencyCondition, Reason, SessionState
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
