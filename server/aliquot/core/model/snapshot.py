"""Snapshot: everything that `decide` reads, frozen at one event number."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import BacklogPeak, KernelPlacement
from aliquot.core.prediction import RunTimes, Workload
from aliquot_schema.bookings import BookedDevice, Booking
from aliquot_schema.ids import (
    AgentId,
    BookingId,
    DeviceId,
    KeyId,
    NodeId,
    PoolId,
    ProjectId,
    QuotaId,
    SessionId,
    SlotName,
    UserId,
)
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import Quota
from aliquot_schema.resources.confinement import ABILITY_LABELS, ASKED_BY, image_label
from aliquot_schema.resources.slots import MILLI, is_accelerator, is_size, scale_of
from aliquot_schema.sessions import (
    DEFAULT_POOL,
    DEFAULT_PROJECT,
    DURATION_S_MAX,
    HELD_BY_ARRAY,
    ArrayTasks,
    Dependency,
    Priority,
    Session,
    SessionSpec,
    Topology,
)
from aliquot_schema.states import SessionState

Request = tuple[tuple[SlotName, int], ...]
"""Amounts per kernel in base units, sorted by slot, none zero."""
HoldersOn = Mapping[DeviceId, tuple[SessionId, ...]]
"""On one node: the sessions that hold (a part of) each device."""
NO_DEVICES: Final = DeviceLayout.of(())
NO_USER: Final = UserId("")
"""Owner of a row without a user."""
EXTERNAL_LIMIT_MS: Final = 1000 * DURATION_S_MAX
"""External allocations without a time limit can be renewed without end, so they never use devices of a reservation."""


class PlacementConstraints(Struct, frozen=True, kw_only=True):
    """Placement constraints of a session: agents and devices that it may use, apart from free capacity."""

    pool: PoolId = DEFAULT_POOL
    labels: tuple[tuple[str, str], ...] = ()
    """(name, value) pairs that an agent must have, sorted."""
    models: tuple[str, ...] = ()
    """Patterns that the models of its accelerators must match; empty = any."""
    preferred_labels: tuple[tuple[str, str], ...] = ()
    """Soft constraint: used if all kernels fit on such agents now."""
    preferred_models: tuple[str, ...] = ()
    image: str = ""
    """Implicit label of agents that hold its image; a soft constraint, which yields to the other two. Empty = none."""
    closed_nodes: tuple[NodeId, ...] = ()
    """Nodes that it may not use now: they are under maintenance before it has ended."""
    closed_devices: tuple[BookedDevice, ...] = ()
    """Devices that it may not use now: they are booked by others before it has ended."""
    topology: Topology = Topology.PREFER
    """Of gangs; sessions with one kernel have the default."""


ANYWHERE: Final = PlacementConstraints()


class AgentRow(Struct, frozen=True, kw_only=True):
    """An agent, as placement sees it."""

    id: AgentId
    node_id: NodeId
    layout: DeviceLayout
    is_open: bool
    """Alive, reachable, and accepting new sessions."""
    pool: PoolId = DEFAULT_POOL
    labels: Mapping[str, str] = field(default_factory=dict)
    is_spot: bool = False
    """Whether its node may be taken away at any time."""
    until_us: int | None = None
    """When its node leaves, microseconds UTC; None = not known to leave."""


class PendingRow(Struct, frozen=True, kw_only=True):
    """A session in the queue. Made once per version of the session, shared by all snapshots."""

    session_id: SessionId
    version: int
    state: SessionState
    request: Request
    cluster_size: int
    """Kernels that it starts with at least; all of them, unless `kernels_max` says otherwise."""
    gpu_memory_bytes: int | None
    priority: Priority
    queued_us: int
    not_before_us: int | None
    excluded_agents: tuple[AgentId, ...]
    depends_on: tuple[Dependency, ...]
    owner: UserId = NO_USER
    project: ProjectId = DEFAULT_PROJECT
    estimate_ms: int | None = None
    """Run time that its owner expects; None = by `workload`."""
    workload: Workload | None = None
    """What the run times of similar sessions are looked up by, in the snapshot's `run_times`; None = they are not."""
    limit_ms: int | None = None
    """Time limit set by its owner."""
    where: PlacementConstraints = ANYWHERE
    is_preemptible: bool = False
    kept_ms: int = 0
    """Run time of earlier attempts whose work it kept when it was preempted."""
    checkpoint_ms: int | None = None
    """How often it saves its work; 0 = when it is asked to leave, None = never."""
    fallback_level: int = 0
    falls_back_us: int | None = None
    """When its next fallback is due, microseconds UTC; None = never."""
    preempted_for: SessionId | None = None
    """The session that it was preempted for; it is queued right behind that one."""
    tasks: Intervals | None = None
    """Indices of a job array that have not been started; each is placed by itself. None = not an array."""
    is_immediate: bool = False
    """Whether it starts in this pass or fails. Immediate sessions are tried last and never preempt."""
    tasks_startable: int = 1
    """How many of `tasks` may start now beside the active ones; 0 for a task that its array holds back."""
    kernels_max: int | None = None
    """Of an elastic gang, which takes up to as many kernels as fit when it starts; None = `cluster_size`."""
    booking: BookingId | None = None
    """The booking whose devices it uses, see `SessionSpec.booking`."""
    key_id: KeyId | None = None
    """The API key that it was submitted with."""

    @classmethod
    def of(cls, session: Session, *, workload: Workload | None = None) -> "PendingRow":
        """The row of a session."""
        request, spec, tasks = session.request, session.spec, session.tasks
        return cls(
            session_id=session.id,
            version=session.version,
            state=SessionState.QUEUED if session.held_by == HELD_BY_ARRAY else session.state,
            request=request_of(session),
            cluster_size=session.kernels_min,
            kernels_max=request.cluster_size if session.kernels_min < request.cluster_size else None,
            gpu_memory_bytes=request.gpu_memory_bytes,
            priority=session.priority,
            queued_us=session.queued_us,
            not_before_us=session.not_before_us,
            excluded_agents=session.excluded_agents,
            depends_on=spec.depends_on,
            owner=session.owner,
            project=session.project,
            estimate_ms=owner_estimate_ms(spec),
            workload=workload,
            limit_ms=spec.time_limit_ms or (EXTERNAL_LIMIT_MS if session.is_external_allocation else None),
            where=where_of(session),
            is_preemptible=spec.preemptible,
            kept_ms=session.kept_ms,
            checkpoint_ms=checkpoint_ms(spec),
            fallback_level=session.fallback_level,
            falls_back_us=falls_back_us(session),
            preempted_for=None if session.preemption is None else session.preemption.by_session,
            is_immediate=session.is_external_allocation,
            tasks=None if tasks is None else tasks.waiting,
            tasks_startable=int(session.held_by != HELD_BY_ARRAY) if tasks is None else startable(tasks),
            booking=spec.booking,
            key_id=session.key_id,
        )

    @property
    def milli(self) -> int:
        """Accelerators of `cluster_size` kernels, in milli."""
        return request_milli(self.request) * self.cluster_size


def asks_the_same(row: PendingRow, other: PendingRow) -> bool:
    """Whether two rows of one job array differ at most in what its tasks did: which wait, and what they taught."""
    apart = {"version": 0, "tasks": None, "tasks_startable": 0, "estimate_ms": None}
    return replace(row, **apart) == replace(other, **apart)


def request_of(session: Session) -> Request:
    """Request of each kernel of a session; amounts are finite."""
    return session.slots.finite


def where_of(session: Session) -> PlacementConstraints:
    """Placement constraints of a session."""
    spec = session.spec
    topology = spec.topology if session.request.cluster_size > 1 else Topology.PREFER
    needs = tuple((ABILITY_LABELS[field], "yes") for field, by in ASKED_BY.items() if getattr(spec, by) is not None)
    is_free = not (needs or spec.labels or spec.models or spec.preferred_labels or spec.preferred_models or spec.image)
    if is_free and session.pool == DEFAULT_POOL and topology is Topology.PREFER:
        return ANYWHERE
    return PlacementConstraints(
        pool=session.pool,
        labels=tuple(sorted((*spec.labels.items(), *needs))),
        models=spec.models,
        preferred_labels=tuple(sorted(spec.preferred_labels.items())),
        preferred_models=spec.preferred_models,
        image="" if spec.image is None else image_label(spec.image),
        topology=topology,
    )


def owner_estimate_ms(spec: SessionSpec) -> int | None:
    """The owner's estimate of the run time, at most the time limit, which ends the run; None without an estimate."""
    estimate_ms, limit_ms = spec.estimated_duration_ms, spec.time_limit_ms
    return estimate_ms if estimate_ms is None or limit_ms is None else min(estimate_ms, limit_ms)


def checkpoint_ms(spec: SessionSpec) -> int | None:
    """How often a session saves its work; 0 = when it is asked to leave, None = never."""
    return spec.checkpoint_every_ms if spec.checkpoint_signal is None else 0


def falls_back_us(session: Session) -> int | None:
    """When the next fallback of a session is due; None if none is left."""
    left = session.spec.fallbacks[session.fallback_level :]
    return session.queued_us + left[0].after_ms * 1000 if left else None


def startable(tasks: ArrayTasks) -> int:
    """How many tasks of an array may start now under its `max_parallel`."""
    waiting = len(tasks.waiting)
    return waiting if tasks.max_parallel is None else min(waiting, max(tasks.max_parallel - len(tasks.active), 0))


@lru_cache(maxsize=1024)
def milli_of(slot: SlotName) -> int:
    """Milli of an accelerator that one base unit of a slot is worth on a device of capacity 1; 0 for other slots."""
    return MILLI // scale_of(slot) if is_accelerator(slot) and not is_size(slot) else 0


@lru_cache(maxsize=4096)
def request_milli(request: Request) -> int:
    """Accelerators that one kernel takes, in milli."""
    return sum(amount * milli_of(slot) for slot, amount in request)


@lru_cache(maxsize=4096)
def accelerators_first(request: Request) -> Request:
    """A request in the order in which shortages are reported: accelerators first, since CPUs and memory may be
    additions of the pool."""
    return tuple(sorted(request, key=lambda asked: not is_accelerator(asked[0])))


def held_milli(kernels: Iterable[KernelPlacement], *, agents: Mapping[AgentId, AgentRow]) -> int:
    """Total accelerator budget that kernels hold, in milli. Devices of unknown agents count with capacity 1."""
    milli = 0
    for kernel in kernels:
        layout = agents[kernel.agent_id].layout if kernel.agent_id in agents else NO_DEVICES
        milli += sum(layout.budget_sum(slot, amounts) for slot, amounts in kernel.spec.items() if is_accelerator(slot))
    return milli


class RunningRow(Struct, frozen=True, kw_only=True):
    """A session that holds devices, and its planned end."""

    session_id: SessionId
    ends_us: int
    """Planned end: start plus planned duration, see `scheduler.expected_ends`. Later than that it is overdue."""
    kernels: tuple[KernelPlacement, ...]
    """Kernels that still hold devices."""
    milli: int
    """Total accelerator budget that they hold."""
    version: int = 0
    owner: UserId = NO_USER
    project: ProjectId = DEFAULT_PROJECT
    priority: Priority = Priority.NORMAL
    started_us: int | None = None
    """When all of its kernels were running; None = not yet."""
    estimate_ms: int | None = None
    """Expected run time."""
    is_preemptible: bool = False
    """Whether its owner allows preemption."""
    preemptions: int = 0
    kept_ms: int = 0
    """As of `PendingRow`; without the present attempt."""
    saved_ms: int | None = None
    """Run time of the present attempt that its last acknowledged checkpoint holds; None = it acknowledges none."""
    checkpoint_ms: int | None = None
    """How often it saves its work; 0 = when it is asked to leave, None = never."""
    grace_ms: int | None = None
    """Grace of its own; None = the policy's."""
    is_leaving: bool = False
    """It was already asked to end and will release its devices."""
    elastic: PendingRow | None = None
    """What an elastic gang asks for that holds fewer kernels than its whole size; None for other sessions."""
    array_id: SessionId | None = None
    booking: BookingId | None = None
    """The booking that it was started in."""
    limit_us: int | None = None
    """When its time limit ends it, microseconds UTC; None = it has no limit."""
    asks_limit_us: int | None = None
    """A later `limit_us` that its owner asks for; None = none."""
    granted_us: int | None = None
    """When its devices were granted; None = unknown."""
    key_id: KeyId | None = None
    """The API key that it was submitted with."""

    @classmethod
    def of(
        cls, session_id: SessionId, kernels: Iterable[KernelPlacement], *, ends_us: int, agents: Iterable[AgentRow]
    ) -> "RunningRow":
        """The row of a session of which only its kernels are known."""
        kernels = tuple(kernels)
        wanted = {kernel.agent_id for kernel in kernels}
        known = {agent.id: agent for agent in agents if agent.id in wanted}
        return cls(session_id=session_id, ends_us=ends_us, kernels=kernels, milli=held_milli(kernels, agents=known))


class IdleHold(Struct, frozen=True, kw_only=True):
    """A running session that loses its GPUs because it does not use them; see `core.idle_process`."""

    idle_us: int
    """Measured idle time when it became due."""
    ends: bool = False
    """Whether it is ended instead of preempted."""
    by_session: SessionId | None = None
    """The waiting session that it was preempted or ended for; None = it still runs."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state that a pass decides on."""

    revision: int
    """Number of the last event that it contains."""
    agents: tuple[AgentRow, ...]
    used: Mapping[NodeId, Mapping[DeviceId, int]]
    """Budget units held, per physical device of a node; idle devices may be missing."""
    queue: Sequence[PendingRow]
    """Every queued or held session, in any order; a `Queue` is used as it is."""
    dependencies: Mapping[SessionId, SessionState] = field(default_factory=dict)
    """States of the sessions that queued rows depend on; deleted ones are missing."""
    array_ends: Mapping[SessionId, SessionState] = field(default_factory=dict)
    """Of `dependencies`, the job arrays with failed or canceled tasks: the state that they end in, if no other task
    fails."""
    holders: Mapping[NodeId, HoldersOn] = field(default_factory=dict)
    """Sessions that hold (a part of) a device, for evidence. As with `used`, a node's mapping is never changed in
    place: caches go by its identity."""
    asked: Mapping[Request, int] = field(default_factory=dict)
    """How often each request was made, by queued and earlier sessions; empty = unknown."""
    running: Sequence[RunningRow] = ()
    """Sessions that hold devices, in any order. Other held devices count as held without end."""
    usage: Usage = field(default_factory=Usage)
    """Decayed usage of users and projects."""
    quotas: Mapping[QuotaId, Quota] = field(default_factory=dict)
    run_times: Mapping[Workload, RunTimes] = field(default_factory=dict)
    """Expected run times of waiting workloads; a missing one is unknown."""
    backlogs: Mapping[PoolId, BacklogPeak] = field(default_factory=dict)
    """The highest backlog of each pool so far; a missing pool had none."""
    bookings: tuple[Booking, ...] = ()
    """Open bookings, in any order."""
    costs: Mapping[str, int] = field(default_factory=dict)
    """What the statements of accounts with a budget say, by `statement_id`, in millionths of the currency."""
    idle: Mapping[SessionId, IdleHold] = field(default_factory=dict)
    """Sessions that are due to lose their GPUs, and those that have lost them and still run."""
