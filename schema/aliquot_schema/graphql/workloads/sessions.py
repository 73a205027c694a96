"""GraphQL API of sessions: the type, filters, output and steps."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from strawberry.types import Info

from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.administration.audit import UncountedConnection, uncounted
from aliquot_schema.graphql.cluster.agents import Kernel
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import (
    DependencyCondition,
    Reason,
    ServiceState,
    SessionState,
    Topology,
)
from aliquot_schema.graphql.fields import argument, optional, root_field
from aliquot_schema.graphql.pagination import PAGE_DEFAULT, After, First, page_of
from aliquot_schema.graphql.scalars import AnyPriority, BigInt, NameValue, SlotAmount
from aliquot_schema.graphql.workloads.forecasts import Forecast
from aliquot_schema.graphql.workloads.session_parts import IdleNotice, ImagePull, Preemption, Preflight, SavedWork
from aliquot_schema.requests import SessionFilter, TimeRange
from aliquot_schema.views.audit import SessionStepView
from aliquot_schema.views.live import BYTES_MAX, BYTES_MIN, SessionLogView


@strawberry.type(description="A dependency on another session.")
class Dependency:
    session_id: strawberry.ID = strawberry.field(description="The other session.")
    condition: DependencyCondition = strawberry.field(description="Condition that the other session must meet.")
    state: SessionState | None = strawberry.field(description="Its current state; null = past retention.")


@strawberry.type(description="Why a session waits: one reason, a message and the evidence.")
class Verdict:
    reason: Reason = strawberry.field(description="The primary reason.")
    message: str = strawberry.field(description="The reason as text.")
    slot: str | None = strawberry.field(description="The slot that is short.")
    requested: str | None = strawberry.field(description="Amount of it that one kernel needs.")
    available: str | None = strawberry.field(
        description="Amount of it that is free on the agent with most; with `quota`, what is left of the quota."
    )
    quota: str | None = strawberry.field(
        description="The quota that holds it back, like `project:vision`; `requested` is then for all its kernels."
    )
    limit: str | None = strawberry.field(description="What that quota allows: an amount of `slot`, or GPU-hours.")
    held: str | None = strawberry.field(description="Amount of `slot` that is held under that quota.")
    may_borrow: bool = strawberry.field(
        description="Whether a preemptible session may exceed `limit`, which is then what the user or project owns."
    )
    fits_kernels: int | None = strawberry.field(description="Number of kernels of the gang that would fit now.")
    blocked_by: list[strawberry.ID] = strawberry.field(description="Sessions it waits for.")
    agents: list[strawberry.ID] = strawberry.field(description="Affected agents.")
    devices: list[strawberry.ID] = strawberry.field(description="Affected devices.")
    until: datetime | None = strawberry.field(description="Known time of the next attempt; null if unknown.")


@strawberry.type(description="Why a session failed.")
class Failure:
    code: str = strawberry.field(description="Stable code for programs.")
    message: str = strawberry.field(description="Message for users.")


@strawberry.type(description="A smaller request that replaces the original one after a wait.")
class Fallback:
    slots: list[SlotAmount] = strawberry.field(description="Slots per kernel.")
    cluster_size: int = strawberry.field(description="Number of kernels.")
    gpu_memory_gb: str | None = strawberry.field(description="Minimum memory per device, in 10^9 bytes.")
    after: float = strawberry.field(description="Seconds after submission at which it applies.")


@strawberry.type(description="A web service of a session, at an address of its own.")
class SessionService:
    name: str = strawberry.field(description="Its name, which is part of its host name.")
    port: int | None = strawberry.field(
        description="TCP port that rank 0 listens on; null until it starts, if the server chooses it."
    )
    asked_port: int = strawberry.field(description="The port as it was submitted; 0 = the server chooses.")
    url: str = strawberry.field(
        description="Path on this server that opens it: the answer leads to the service's own address and signs the "
        "browser in there. Only for the owner of the session."
    )
    state: ServiceState = strawberry.field(description="Whether it can be opened.")


@strawberry.type(description="Some tasks of a job array.")
class TaskSet:
    indices: str = strawberry.field(description="Like `0-99,105`; empty = none.")
    count: int = strawberry.field(description="Number of tasks.")


@strawberry.type(description="The tasks of a job array by state; each is in exactly one set.")
class ArrayTasks:
    waiting: TaskSet = strawberry.field(description="Not started; without a session of their own.")
    active: TaskSet = strawberry.field(description="Sessions `<array>_<index>` that have not ended.")
    completed: TaskSet = strawberry.field(description="Completed.")
    failed: TaskSet = strawberry.field(description="Failed.")
    canceled: TaskSet = strawberry.field(description="Canceled.")
    max_parallel: int | None = strawberry.field(description="Maximum number of active tasks; null = no limit.")


@strawberry.type(description="Expected run time of a session. Used for ordering, not for reservations.")
class OrderEstimate:
    seconds: float = strawberry.field(description="Expected run time.")
    explanation: str = strawberry.field(description="Basis of the estimate, as a sentence.")


@strawberry.type(description="A GPU, or a share of one, allocated to a session.")
class AllocatedGpu:
    node_id: strawberry.ID = strawberry.field(description="The host.")
    gpu_id: strawberry.ID = strawberry.field(description="The device.")
    share: float = strawberry.field(description="Share of the device, 0 to 1.")
    memory_gb: float = strawberry.field(description="Share of the device's memory, in 10^9 bytes.")
    utilization_pct: float | None = strawberry.field(
        description="Utilization of the whole device at the last sample, 0 to 100; null once it is released."
    )


@strawberry.type(description="A session (job): a command with resources, from submission to its end.")
class Session:
    id: strawberry.ID = strawberry.field(description="`ses_...`; sorts by time of submission.")
    version: int = strawberry.field(description="Incremented by every change; see `expected_version`.")
    owner: str = strawberry.field(description="User who submitted it.")
    project: str = strawberry.field(description="Project it is charged to.")
    pool: str = strawberry.field(description="Pool of agents it runs in.")
    name: str | None = strawberry.field(description="Name for display.")
    run_id: str | None = strawberry.field(description="Client-defined id; need not be unique.")
    tags: list[NameValue] = strawberry.field(description="Client-defined tags.")
    command: list[str] = strawberry.field(description="Program and arguments; a shell command is run by `/bin/sh -c`.")
    slots: list[SlotAmount] = strawberry.field(description="Slots per kernel.")
    cluster_size: int = strawberry.field(description="Number of kernels; all start together or none does.")
    cluster_size_min: int | None = strawberry.field(
        description="The fewest kernels that an elastic gang starts with; null = it starts whole."
    )
    gpu_memory_gb: str | None = strawberry.field(description="Minimum memory per device, in 10^9 bytes.")
    environment: list[NameValue] = strawberry.field(description="Environment variables added for its processes.")
    working_directory: str | None = strawberry.field(
        description="Working directory; null = a new directory of its own."
    )
    estimated_duration: float | None = strawberry.field(description="Run time in seconds as estimated by its owner.")
    time_limit: float | None = strawberry.field(description="Wall-time limit per attempt, in seconds.")
    max_retries: int = strawberry.field(description="Maximum number of retries.")
    retry_count: int = strawberry.field(description="Number of retries so far.")
    preemptible: bool = strawberry.field(description="Whether it may be preempted.")
    depends_on: list[Dependency] = strawberry.field(description="Sessions it depends on.")
    priority: AnyPriority = strawberry.field(description="Priority.")
    state: SessionState = strawberry.field(description="Current state.")
    attempt: int = strawberry.field(description="Number of the current attempt; 0 before the first.")
    queue_position: int | None = strawberry.field(
        description="Position in the queue, from 1; null if it does not wait for its turn: not queued, or held back by "
        "a hold, a dependency, a quota, the limit of its array or a retry."
    )
    waits: Verdict | None = strawberry.field(
        description="Why it waits; null if it does not, or no scheduling pass has considered it yet."
    )
    kernels: list[Kernel] = strawberry.field(description="Kernels of the newest attempt.")
    holds_devices: bool = strawberry.field(description="Whether any attempt still holds devices.")
    queued_at: datetime = strawberry.field(description="When it was submitted.")
    scheduled_at: datetime | None = strawberry.field(description="When devices were granted.")
    started_at: datetime | None = strawberry.field(description="When all of its kernels were running.")
    ended_at: datetime | None = strawberry.field(description="When it ended.")
    exit_code: int | None = strawberry.field(description="Exit code of the first rank that failed, else 0.")
    signal: int | None = strawberry.field(description="The signal that ended that rank.")
    failure: Failure | None = strawberry.field(description="Why it failed.")
    retries_own_failures: bool = strawberry.field(description="Whether failures of its own command are retried.")
    checkpoint_signal: str | None = strawberry.field(
        description="Signal that asks it to save its work: every `checkpoint_every`, before the time limit, and when "
        "it is preempted."
    )
    checkpoint_every: float | None = strawberry.field(
        description="Seconds between its checkpoints, as promised by its owner."
    )
    grace: float | None = strawberry.field(description="Seconds from that signal to the stop; null = the policy's.")
    labels: list[NameValue] = strawberry.field(description="Labels that its agents must have.")
    preferred_labels: list[NameValue] = strawberry.field(description="Labels of preferred agents.")
    models: list[str] = strawberry.field(description="Allowed accelerator models; empty = any.")
    preferred_models: list[str] = strawberry.field(description="Preferred accelerator models.")
    topology: Topology = strawberry.field(description="How near to each other its kernels have to be.")
    fallbacks: list[Fallback] = strawberry.field(description="Smaller requests that apply after a wait.")
    fallback_level: int = strawberry.field(
        description="Number of fallbacks applied; 0 = the original request is in force."
    )
    preemptions: int = strawberry.field(description="How often it was preempted.")
    preemption: Preemption | None = strawberry.field(description="Its last preemption.")
    idle: IdleNotice | None = strawberry.field(
        description="That it does not use its GPUs; null if it does, or holds none. `keep_session` states that it is "
        "still needed, `cancel_session` gives the GPUs back."
    )
    room_made: str | None = strawberry.field(
        description="Which session had to leave for it because it did not use its GPUs; null = none."
    )
    work: SavedWork | None = strawberry.field(
        description="What it saved and lost; null if it never acknowledged a checkpoint and never lost work."
    )
    held_by: str | None = strawberry.field(description="User or part of the server that holds it.")
    array_id: strawberry.ID | None = strawberry.field(description="The job array it is a task of.")
    array_index: int | None = strawberry.field(description="Index in the job array.")
    tasks: ArrayTasks | None = strawberry.field(description="Tasks by state; null if it is not a job array.")
    order_estimate: OrderEstimate | None = strawberry.field(description="Expected run time.")
    order_explanation: str | None = strawberry.field(
        description="What its place in the queue is made of, under fair_share and relative_age, and how much later "
        "a session may come and still pass it. Null if it does not wait; only the query `session` computes it."
    )
    reserve_until: datetime | None = strawberry.field(
        description="Latest expected release of its devices; null if it holds none."
    )
    expected_start: datetime | None = strawberry.field(
        description="Latest start if running sessions end by their limits, or, without one, as similar ones did; "
        "null if it has no reservation."
    )
    forecast: Forecast | None = strawberry.field(
        description="When it is forecast to start; null if it does not wait, and was never told a forecast."
    )
    services: list[SessionService] = strawberry.field(description="Its web services.")
    workspace: str | None = strawberry.field(
        description="Id of the workspace that was unpacked into its working directory."
    )
    activates: str | None = strawberry.field(description="Environment that is activated before the command.")
    image: str | None = strawberry.field(description="Container image that its command runs in.")
    shares_access: bool = strawberry.field(
        description="Whether members of its project may open its terminals, ports and web services."
    )
    booking: strawberry.ID | None = strawberry.field(
        description="Id of the booking whose GPUs it uses until that is over; null = none."
    )
    preflight: Preflight | None = strawberry.field(
        description="The check before its command; null = it starts without one."
    )
    pull: ImagePull | None = strawberry.field(
        description="The pull of its image in its newest attempt; null = its image was there, or it has none."
    )
    hidden: list[str] = strawberry.field(
        description="Names of fields hidden from the caller, which are null or empty here."
    )
    requested_gpus: float = strawberry.field(description="GPUs of all kernels together; shares count as fractions.")
    requested_memory_gb: str | None = strawberry.field(description="Minimum memory per device, in 10^9 bytes.")
    allocated_gpus: list[AllocatedGpu] = strawberry.field(description="GPUs allocated to the newest attempt.")
    allocation_time: datetime | None = strawberry.field(description="When devices were granted.")
    estimated_start_time: datetime | None = strawberry.field(description="Same as `expected_start`.")
    estimated_wait_time: float | None = strawberry.field(
        description="Seconds from submission to `estimated_start_time`."
    )
    scheduling_policy: str = strawberry.field(description="Name of the current order policy.")


@strawberry.input(name="TimeRange", description="A period of time; both ends are included.")
class TimeRangeInput:
    since: datetime | None = optional("Start; null = unbounded.")
    until: datetime | None = optional("End; null = unbounded.")


@strawberry.input(name="SessionFilter", description="Filter of sessions. Fields that are null match all sessions.")
class SessionFilterInput:
    ids: list[strawberry.ID] | None = optional("Ids.")
    states: list[SessionState] | None = optional("States.")
    owners: list[str] | None = optional("Owners.")
    run_id: str | None = optional("Client-defined id. Matches only sessions whose run_id is visible to the caller.")
    name: str | None = optional("Exact name.")
    projects: list[str] | None = optional("Projects.")
    search: str | None = optional("Substring of the name or id; case-insensitive for A to Z.")
    pools: list[str] | None = optional("Pools.")
    priorities: list[AnyPriority] | None = optional("Priorities.")
    array_id: strawberry.ID | None = optional("Tasks of this job array.")
    tags: list[str] | None = optional(
        "Tags that it must all have: `name`, or `name=value`. Matches only sessions whose tags the caller may see."
    )
    queued_at: TimeRangeInput | None = optional("Time of submission.")
    started_at: TimeRangeInput | None = optional("Time of the start.")
    ended_at: TimeRangeInput | None = optional("Time of the end.")
    exit_codes: list[int] | None = optional(
        "Exit codes. Matches only sessions whose exit code is visible to the caller."
    )
    failures: list[str] | None = optional(
        "Failure codes, like time_limit, signal, exit_code or kernel_lost. Matches only sessions whose failure is "
        "visible to the caller."
    )
    agents: list[strawberry.ID] | None = optional("Agents of the newest attempt.")
    nodes: list[str] | None = optional("Nodes of the newest attempt.")
    devices: list[str] | None = optional("Ids of devices of the newest attempt.")

    def to_filter(self) -> SessionFilter:
        """The filter as a domain value."""
        return SessionFilter(
            ids=tuple(self.ids or ()),
            states=tuple(self.states or ()),
            owners=tuple(self.owners or ()),
            run_id=self.run_id,
            name=self.name,
            projects=tuple(self.projects or ()),
            search=self.search,
            pools=tuple(self.pools or ()),
            priorities=tuple(self.priorities or ()),
            array_id=self.array_id,
            tags=tuple(self.tags or ()),
            queued_at=_range(self.queued_at),
            started_at=_range(self.started_at),
            ended_at=_range(self.ended_at),
            exit_codes=tuple(self.exit_codes or ()),
            failures=tuple(self.failures or ()),
            agents=tuple(self.agents or ()),
            nodes=tuple(self.nodes or ()),
            devices=tuple(self.devices or ()),
        )


def _range(given: TimeRangeInput | None) -> TimeRange | None:
    return None if given is None else TimeRange(since=given.since, until=given.until)


_START: Final = BigInt(0)
_BYTES: Final = 65_536


@strawberry.type(
    description="A piece of a kernel's output. If the output exceeds what the agent keeps, the middle is dropped and a "
    "line states its length; offsets still count all bytes."
)
class SessionLog:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    kernel_id: strawberry.ID = strawberry.field(description="The kernel.")
    rank: int = strawberry.field(description="Rank of the kernel, from 0.")
    attempt: int = strawberry.field(description="Number of the attempt, from 1; 0 before the first.")
    offset: BigInt = strawberry.field(description="Offset of the first byte.")
    next_offset: BigInt = strawberry.field(description="Offset of the next piece, to pass as `offset`.")
    length: BigInt = strawberry.field(description="Bytes of output so far, including dropped ones.")
    left_out: BigInt = strawberry.field(description="Dropped bytes after the requested offset.")
    has_more: bool = strawberry.field(description="Whether there is more output after this piece.")
    text: str = strawberry.field(description="The output decoded as UTF-8; invalid bytes become U+FFFD.")
    at_end: bool = strawberry.field(description="Whether the output is complete.")


@strawberry.type
class SessionLogQueries:
    """Part of `Query`."""

    @root_field(
        SessionLog,
        "Output of one rank so far, or a piece of it, without waiting; `session_logs` follows it. For the session's "
        "owner and admins.",
    )
    async def session_log(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        rank: Annotated[int, argument("Rank of the kernel, from 0.")] = 0,
        attempt: Annotated[
            int | None, argument("Number of the attempt, from 1; null = the newest that was started.")
        ] = None,
        offset: Annotated[BigInt, argument("Offset of the first byte; a negative one counts from the end.")] = _START,
        bytes_max: Annotated[int, argument(f"Maximum number of bytes, {BYTES_MIN} to {BYTES_MAX}.")] = _BYTES,
    ) -> SessionLogView:
        if rank < 0:
            raise InvalidRequest(f"`rank` must be 0 or more, not {rank}", field="rank")
        if not BYTES_MIN <= bytes_max <= BYTES_MAX:
            raise InvalidRequest(f"`bytes_max` must be {BYTES_MIN} to {BYTES_MAX}, not {bytes_max}", field="bytes_max")
        context = info.context
        return await context.services.subscriptions.session_log(
            context.caller, id, rank=rank, attempt=attempt, offset=offset, bytes_max=bytes_max
        )


@strawberry.type(description="A committed state change of a session.")
class SessionStep:
    number: BigInt = strawberry.field(description="Number of the event; ascending.")
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened: `session.queued`, `session.requeued`, ...")
    state: SessionState = strawberry.field(description="State after the step.")
    attempt: int = strawberry.field(description="Number of the attempt; 0 before the first.")
    held_by: str | None = strawberry.field(description="User or part of the server that holds it after the step.")
    preemption: Preemption | None = strawberry.field(description="The last preemption as of this step.")
    pull: ImagePull | None = strawberry.field(
        description="With `session.pulling` and `session.pulled`: the pull that began or ended."
    )


@strawberry.type
class SessionStepQueries:
    @root_field(
        UncountedConnection[SessionStep],
        "State changes of a session, newest first, as far back as the event log is kept.",
    )
    async def session_steps(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, argument("The session.")],
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[SessionStepView]:
        context = info.context
        return uncounted(await context.services.queries.session_steps(context.caller, id, page_of(first, after)))
