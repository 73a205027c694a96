"""Sessions.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.agents import Kernel
from aliquot.client.generated.enums import DependencyCondition, Reason, ServiceState, SessionState, Topology
from aliquot.client.generated.forecasts import Forecast
from aliquot.client.generated.scalars import NameValue, SlotAmount
from aliquot.client.generated.session_parts import IdleNotice, ImagePull, Preemption, Preflight, SavedWork


class AllocatedGpu(Struct, frozen=True, kw_only=True):
    """A GPU, or a share of one, allocated to a session."""

    node_id: str
    """The host."""
    gpu_id: str
    """The device."""
    share: float
    """Share of the device, 0 to 1."""
    memory_gb: float
    """Share of the device's memory, in 10^9 bytes."""
    utilization_pct: float | None
    """Utilization of the whole device at the last sample, 0 to 100; null once it is released."""


class TaskSet(Struct, frozen=True, kw_only=True):
    """Some tasks of a job array."""

    indices: str
    """Like `0-99,105`; empty = none."""
    count: int
    """Number of tasks."""


class ArrayTasks(Struct, frozen=True, kw_only=True):
    """The tasks of a job array by state; each is in exactly one set."""

    waiting: TaskSet
    """Not started; without a session of their own."""
    active: TaskSet
    """Sessions `<array>_<index>` that have not ended."""
    completed: TaskSet
    """Completed."""
    failed: TaskSet
    """Failed."""
    canceled: TaskSet
    """Canceled."""
    max_parallel: int | None
    """Maximum number of active tasks; null = no limit."""


class Dependency(Struct, frozen=True, kw_only=True):
    """A dependency on another session."""

    session_id: str
    """The other session."""
    condition: DependencyCondition
    """Condition that the other session must meet."""
    state: SessionState | None
    """Its current state; null = past retention."""


class Failure(Struct, frozen=True, kw_only=True):
    """Why a session failed."""

    code: str
    """Stable code for programs."""
    message: str
    """Message for users."""


class Fallback(Struct, frozen=True, kw_only=True):
    """A smaller request that replaces the original one after a wait."""

    slots: tuple[SlotAmount, ...]
    """Slots per kernel."""
    cluster_size: int
    """Number of kernels."""
    gpu_memory_gb: str | None
    """Minimum memory per device, in 10^9 bytes."""
    after: float
    """Seconds after submission at which it applies."""


class OrderEstimate(Struct, frozen=True, kw_only=True):
    """Expected run time of a session. Used for ordering, not for reservations."""

    seconds: float
    """Expected run time."""
    explanation: str
    """Basis of the estimate, as a sentence."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Why a session waits: one reason, a message and the evidence."""

    reason: Reason
    """The primary reason."""
    message: str
    """The reason as text."""
    slot: str | None
    """The slot that is short."""
    requested: str | None
    """Amount of it that one kernel needs."""
    available: str | None
    """Amount of it that is free on the agent with most; with `quota`, what is left of the quota."""
    quota: str | None
    """The quota that holds it back, like `project:vision`; `requested` is then for all its kernels."""
    limit: str | None
    """What that quota allows: an amount of `slot`, or GPU-hours."""
    held: str | None
    """Amount of `slot` that is held under that quota."""
    may_borrow: bool
    """Whether a preemptible session may exceed `limit`, which is then what the user or project owns."""
    fits_kernels: int | None
    """Number of kernels of the gang that would fit now."""
    blocked_by: tuple[str, ...]
    """Sessions it waits for."""
    agents: tuple[str, ...]
    """Affected agents."""
    devices: tuple[str, ...]
    """Affected devices."""
    until: datetime | None
    """Known time of the next attempt; null if unknown."""


class SessionService(Struct, frozen=True, kw_only=True):
    """A web service of a session, at an address of its own."""

    name: str
    """Its name, which is part of its host name."""
    port: int | None
    """TCP port that rank 0 listens on; null until it starts, if the server chooses it."""
    asked_port: int
    """The port as it was submitted; 0 = the server chooses."""
    url: str
    """
    Path on this server that opens it: the answer leads to the service's own address and signs the browser in there.
    Only for the owner of the session.
    """
    state: ServiceState
    """Whether it can be opened."""


class Session(Struct, frozen=True, kw_only=True):
    """A session (job): a command with resources, from submission to its end."""

    id: str
    """`ses_...`; sorts by time of submission."""
    version: int
    """Incremented by every change; see `expected_version`."""
    owner: str
    """User who submitted it."""
    project: str
    """Project it is charged to."""
    pool: str
    """Pool of agents it runs in."""
    name: str | None
    """Name for display."""
    run_id: str | None
    """Client-defined id; need not be unique."""
    tags: tuple[NameValue, ...]
    """Client-defined tags."""
    command: tuple[str, ...]
    """Program and arguments; a shell command is run by `/bin/sh -c`."""
    slots: tuple[SlotAmount, ...]
    """Slots per kernel."""
    cluster_size: int
    """Number of kernels; all start together or none does."""
    cluster_size_min: int | None
    """The fewest kernels that an elastic gang starts with; null = it starts whole."""
    gpu_memory_gb: str | None
    """Minimum memory per device, in 10^9 bytes."""
    environment: tuple[NameValue, ...]
    """Environment variables added for its processes."""
    working_directory: str | None
    """Working directory; null = a new directory of its own."""
    estimated_duration: float | None
    """Run time in seconds as estimated by its owner."""
    time_limit: float | None
    """Wall-time limit per attempt, in seconds."""
    max_retries: int
    """Maximum number of retries."""
    retry_count: int
    """Number of retries so far."""
    preemptible: bool
    """Whether it may be preempted."""
    depends_on: tuple[Dependency, ...]
    """Sessions it depends on."""
    priority: str
    """Priority."""
    state: SessionState
    """Current state."""
    attempt: int
    """Number of the current attempt; 0 before the first."""
    queue_position: int | None
    """
    Position in the queue, from 1; null if it does not wait for its turn: not queued, or held back by a hold, a
    dependency, a quota, the limit of its array or a retry.
    """
    waits: Verdict | None
    """Why it waits; null if it does not, or no scheduling pass has considered it yet."""
    kernels: tuple[Kernel, ...]
    """Kernels of the newest attempt."""
    holds_devices: bool
    """Whether any attempt still holds devices."""
    queued_at: datetime
    """When it was submitted."""
    scheduled_at: datetime | None
    """When devices were granted."""
    started_at: datetime | None
    """When all of its kernels were running."""
    ended_at: datetime | None
    """When it ended."""
    exit_code: int | None
    """Exit code of the first rank that failed, else 0."""
    signal: int | None
    """The signal that ended that rank."""
    failure: Failure | None
    """Why it failed."""
    retries_own_failures: bool
    """Whether failures of its own command are retried."""
    checkpoint_signal: str | None
    """
    Signal that asks it to save its work: every `checkpoint_every`, before the time limit, and when it is preempted.
    """
    checkpoint_every: float | None
    """Seconds between its checkpoints, as promised by its owner."""
    grace: float | None
    """Seconds from that signal to the stop; null = the policy's."""
    labels: tuple[NameValue, ...]
    """Labels that its agents must have."""
    preferred_labels: tuple[NameValue, ...]
    """Labels of preferred agents."""
    models: tuple[str, ...]
    """Allowed accelerator models; empty = any."""
    preferred_models: tuple[str, ...]
    """Preferred accelerator models."""
    topology: Topology
    """How near to each other its kernels have to be."""
    fallbacks: tuple[Fallback, ...]
    """Smaller requests that apply after a wait."""
    fallback_level: int
    """Number of fallbacks applied; 0 = the original request is in force."""
    preemptions: int
    """How often it was preempted."""
    preemption: Preemption | None
    """Its last preemption."""
    idle: IdleNotice | None
    """
    That it does not use its GPUs; null if it does, or holds none. `keep_session` states that it is still needed,
    `cancel_session` gives the GPUs back.
    """
    room_made: str | None
    """Which session had to leave for it because it did not use its GPUs; null = none."""
    work: SavedWork | None
    """What it saved and lost; null if it never acknowledged a checkpoint and never lost work."""
    held_by: str | None
    """User or part of the server that holds it."""
    array_id: str | None
    """The job array it is a task of."""
    array_index: int | None
    """Index in the job array."""
    tasks: ArrayTasks | None
    """Tasks by state; null if it is not a job array."""
    order_estimate: OrderEstimate | None
    """Expected run time."""
    order_explanation: str | None
    """
    What its place in the queue is made of, under fair_share and relative_age, and how much later a session may come and
    still pass it. Null if it does not wait; only the query `session` computes it.
    """
    reserve_until: datetime | None
    """Latest expected release of its devices; null if it holds none."""
    expected_start: datetime | None
    """
    Latest start if running sessions end by their limits, or, without one, as similar ones did; null if it has no
    reservation.
    """
    forecast: Forecast | None
    """When it is forecast to start; null if it does not wait, and was never told a forecast."""
    services: tuple[SessionService, ...]
    """Its web services."""
    workspace: str | None
    """Id of the workspace that was unpacked into its working directory."""
    activates: str | None
    """Environment that is activated before the command."""
    image: str | None
    """Container image that its command runs in."""
    shares_access: bool
    """Whether members of its project may open its terminals, ports and web services."""
    booking: str | None
    """Id of the booking whose GPUs it uses until that is over; null = none."""
    preflight: Preflight | None
    """The check before its command; null = it starts without one."""
    pull: ImagePull | None
    """The pull of its image in its newest attempt; null = its image was there, or it has none."""
    hidden: tuple[str, ...]
    """Names of fields hidden from the caller, which are null or empty here."""
    requested_gpus: float
    """GPUs of all kernels together; shares count as fractions."""
    requested_memory_gb: str | None
    """Minimum memory per device, in 10^9 bytes."""
    allocated_gpus: tuple[AllocatedGpu, ...]
    """GPUs allocated to the newest attempt."""
    allocation_time: datetime | None
    """When devices were granted."""
    estimated_start_time: datetime | None
    """Same as `expected_start`."""
    estimated_wait_time: float | None
    """Seconds from submission to `estimated_start_time`."""
    scheduling_policy: str
    """Name of the current order policy."""


class TimeRange(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A period of time; both ends are included."""

    since: datetime | None = None
    """Start; null = unbounded."""
    until: datetime | None = None
    """End; null = unbounded."""


class SessionFilter(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Filter of sessions. Fields that are null match all sessions."""

    ids: Sequence[str] | None = None
    """Ids."""
    states: Sequence[SessionState] | None = None
    """States."""
    owners: Sequence[str] | None = None
    """Owners."""
    run_id: str | None = None
    """Client-defined id. Matches only sessions whose run_id is visible to the caller."""
    name: str | None = None
    """Exact name."""
    projects: Sequence[str] | None = None
    """Projects."""
    search: str | None = None
    """Substring of the name or id; case-insensitive for A to Z."""
    pools: Sequence[str] | None = None
    """Pools."""
    priorities: Sequence[str] | None = None
    """Priorities."""
    array_id: str | None = None
    """Tasks of this job array."""
    tags: Sequence[str] | None = None
    """Tags that it must all have: `name`, or `name=value`. Matches only sessions whose tags the caller may see."""
    queued_at: TimeRange | None = None
    """Time of submission."""
    started_at: TimeRange | None = None
    """Time of the start."""
    ended_at: TimeRange | None = None
    """Time of the end."""
    exit_codes: Sequence[int] | None = None
    """Exit codes. Matches only sessions whose exit code is visible to the caller."""
    failures: Sequence[str] | None = None
    """
    Failure codes, like time_limit, signal, exit_code or kernel_lost. Matches only sessions whose failure is visible to
    the caller.
    """
    agents: Sequence[str] | None = None
    """Agents of the newest attempt."""
    nodes: Sequence[str] | None = None
    """Nodes of the newest attempt."""
    devices: Sequence[str] | None = None
    """Ids of devices of the newest attempt."""


class SessionLog(Struct, frozen=True, kw_only=True):
    """
    A piece of a kernel's output. If the output exceeds what the agent keeps, the middle is dropped and a line states
    its length; offsets still count all bytes.
    """

    session_id: str
    """The session."""
    kernel_id: str
    """The kernel."""
    rank: int
    """Rank of the kernel, from 0."""
    attempt: int
    """Number of the attempt, from 1; 0 before the first."""
    offset: int
    """Offset of the first byte."""
    next_offset: int
    """Offset of the next piece, to pass as `offset`."""
    length: int
    """Bytes of output so far, including dropped ones."""
    left_out: int
    """Dropped bytes after the requested offset."""
    has_more: bool
    """Whether there is more output after this piece."""
    text: str
    """The output decoded as UTF-8; invalid bytes become U+FFFD."""
    at_end: bool
    """Whether the output is complete."""


class SessionStep(Struct, frozen=True, kw_only=True):
    """A committed state change of a session."""

    number: int
    """Number of the event; ascending."""
    at: datetime
    """When it was committed."""
    kind: str
    """What happened: `session.queued`, `session.requeued`, ..."""
    state: SessionState
    """State after the step."""
    attempt: int
    """Number of the attempt; 0 before the first."""
    held_by: str | None
    """User or part of the server that holds it after the step."""
    preemption: Preemption | None
    """The last preemption as of this step."""
    pull: ImagePull | None
    """With `session.pulling` and `session.pulled`: the pull that began or ended."""
