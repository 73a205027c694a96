"""A snapshot: everything `decide` reads, frozen at one event number."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.fairshare import Usage
from aliquot.core.plan import KernelPlacement
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, ProjectId, QuotaId, SessionId, SlotName, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import Quota
from aliquot_schema.sessions import (
    DEFAULT_POOL,
    DEFAULT_PROJECT,
    DURATION_S_MAX,
    HELD_BY_ARRAY,
    ArrayTasks,
    Dependency,
    Priority,
    Session,
)
from aliquot_schema.slots import MILLI, is_accelerator, is_size, scale_of
from aliquot_schema.states import SessionState

Request = tuple[tuple[SlotName, int], ...]
"""Amounts per kernel in base units, sorted by slot, none zero."""
HoldersOn = Mapping[DeviceId, tuple[SessionId, ...]]
"""Of a node: the sessions that hold a part of each device."""
NO_DEVICES: Final = DeviceLayout.of(())
NOBODY: Final = UserId("")
"""Owns what nobody in particular does."""
OUTSIDE_LIMIT_MS: Final = 1000 * DURATION_S_MAX
"""Work run outside may go on for ever, by one call after the other: it gets nothing that somebody else is promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which agents and devices a session may be put on, whatever is free there."""

    pool: PoolId = DEFAULT_POOL
    labels: tuple[tuple[str, str], ...] = ()
    """(name, value) that an agent must have, by name."""
    models: tuple[str, ...] = ()
    """Patterns of models that its accelerators may be of; empty = any."""
    preferred_labels: tuple[tuple[str, str], ...] = ()
    """Agents with these are taken where all kernels fit on such agents now."""
    preferred_models: tuple[str, ...] = ()


ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """An agent, as far as placing is concerned."""

    id: AgentId
    node_id: NodeId
    layout: DeviceLayout
    is_open: bool
    """Alive, can be asked, and takes new sessions."""
    pool: PoolId = DEFAULT_POOL
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """A session in the queue. Made once per version of the session and shared by all snapshots."""

    session_id: SessionId
    version: int
    state: SessionState
    request: Request
    cluster_size: int
    gpu_memory_bytes: int | None
    priority: Priority
    queued_us: int
    not_before_us: int | None
    excluded_agents: tuple[AgentId, ...]
    depends_on: tuple[Dependency, ...]
    owner: UserId = NOBODY
    project: ProjectId = DEFAULT_PROJECT
    estimate_ms: int | None = None
    """How long it is expected to run: what it is ordered by, never what is reserved for it."""
    limit_ms: int | None = None
    """The wall time that its owner set; the most it can hold its devices."""
    where: Where = ANYWHERE
    is_preemptible: bool = False
    fallback_level: int = 0
    falls_back_us: int | None = None
    """When it asks for less, microseconds UTC; None = never."""
    made_room_for: SessionId | None = None
    """The session that it was stopped for, which it lets start first."""
    tasks: Intervals | None = None
    """Of a job array: the indices that have not been started; each is placed by itself."""
    at_once: bool = False
    """It starts in this pass or not at all, comes after all others, and nobody makes room for it."""
    tasks_startable: int = 1
    """Of these, how many may start now besides those that are active; 0 for a task that its array holds back."""

    @classmethod
    def of(cls, session: Session, *, estimate_ms: int | None = None) -> "PendingRow":
        """Take from a session what a pass needs.

        Args:
            estimate_ms: what was predicted; None = what its owner estimates.
        """
        request, spec, tasks = session.request, session.spec, session.tasks
        return cls(
            session_id=session.id,
            version=session.version,
            state=SessionState.QUEUED if session.held_by == HELD_BY_ARRAY else session.state,
            request=request_of(session),
            cluster_size=request.cluster_size,
            gpu_memory_bytes=request.gpu_memory_bytes,
            priority=session.priority,
            queued_us=session.queued_us,
            not_before_us=session.not_before_us,
            excluded_agents=session.excluded_agents,
            depends_on=spec.depends_on,
            owner=session.owner,
            project=session.project,
            estimate_ms=spec.estimated_duration_ms if estimate_ms is None else estimate_ms,
            limit_ms=OUTSIDE_LIMIT_MS if session.is_outside else spec.time_limit_ms,
            where=where_of(session),
            is_preemptible=spec.preemptible,
            fallback_level=session.fallback_level,
            falls_back_us=falls_back_us(session),
            made_room_for=None if session.preemption is None else session.preemption.by_session,
            at_once=session.is_outside,
            tasks=None if tasks is None else tasks.waiting,
            tasks_startable=int(session.held_by != HELD_BY_ARRAY) if tasks is None else startable(tasks),
        )


def request_of(session: Session) -> Request:
    """What each kernel of a session asks for; a session never asks for the unlimited."""
    return session.slots.finite


def where_of(session: Session) -> Where:
    """Which agents and devices a session asks for."""
    spec = session.spec
    if session.pool == DEFAULT_POOL and not (
        spec.labels or spec.models or spec.preferred_labels or spec.preferred_models
    ):
        return ANYWHERE
    return Where(
        pool=session.pool,
        labels=tuple(sorted(spec.labels.items())),
        models=spec.models,
        preferred_labels=tuple(sorted(spec.preferred_labels.items())),
        preferred_models=spec.preferred_models,
    )


def falls_back_us(session: Session) -> int | None:
    """When a session asks for its next fallback; None when it has none left."""
    left = session.spec.fallbacks[session.fallback_level :]
    return session.queued_us + left[0].after_ms * 1000 if left else None


def startable(tasks: ArrayTasks) -> int:
    """How many tasks of an array may start now."""
    waiting = len(tasks.waiting)
    return waiting if tasks.max_parallel is None else min(waiting, max(tasks.max_parallel - len(tasks.active), 0))


@lru_cache(maxsize=1024)
def milli_of(slot: SlotName) -> int:
    """Milli of an accelerator that one base unit of a slot is worth, on a device of the usual kind; 0 for others."""
    return MILLI // scale_of(slot) if is_accelerator(slot) and not is_size(slot) else 0


def held_milli(kernels: Iterable[KernelPlacement], *, agents: Mapping[AgentId, AgentRow]) -> int:
    """Budget of accelerators that kernels hold in sum. On an agent that is not given, a device counts as usual."""
    milli = 0
    for kernel in kernels:
        layout = agents[kernel.agent_id].layout if kernel.agent_id in agents else NO_DEVICES
        milli += sum(layout.budget_sum(slot, amounts) for slot, amounts in kernel.spec.items() if is_accelerator(slot))
    return milli


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """A session that holds devices, and when it is reckoned to give them back."""

    session_id: SessionId
    ends_us: int
    """Its guard's end, see `guards`. Once that has passed, it is reckoned to end at any moment."""
    kernels: tuple[KernelPlacement, ...]
    """Those that still hold something."""
    milli: int
    """Budget of accelerators that they hold in sum."""
    version: int = 0
    owner: UserId = NOBODY
    project: ProjectId = DEFAULT_PROJECT
    priority: Priority = Priority.NORMAL
    started_us: int | None = None
    """When all of its kernels ran; None = not yet."""
    estimate_ms: int | None = None
    """How long it was expected to run."""
    is_preemptible: bool = False
    """Whether its owner lets it be asked to make room."""
    preemptions: int = 0
    grace_ms: int | None = None
    """Its own; None = the policy's."""
    is_leaving: bool = False
    """It was asked to end, by whomever: it gives its devices back without being asked again."""
    array_id: SessionId | None = None

    @classmethod
    def of(
        cls, session_id: SessionId, kernels: Iterable[KernelPlacement], *, ends_us: int, agents: Iterable[AgentRow]
    ) -> "RunningRow":
        """A session that was given this, and of which nothing else is known."""
        kernels = tuple(kernels)
        wanted = {kernel.agent_id for kernel in kernels}
        known = {agent.id: agent for agent in agents if agent.id in wanted}
        return cls(session_id=session_id, ends_us=ends_us, kernels=kernels, milli=held_milli(kernels, agents=known))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state a pass decides on."""

    revision: int
    """The number of the last event it contains."""
    agents: tuple[AgentRow, ...]
    used: Mapping[NodeId, Mapping[DeviceId, int]]
    """Budget units held, per physical device of a node; devices that are idle may be missing."""
    queue: Sequence[PendingRow]
    """Every session that is queued or held, in any order; a `Queue` is not sorted and counted anew."""
    dependencies: Mapping[SessionId, SessionState] = field(default_factory=dict)
    """States of the sessions that rows of the queue depend on; one that is no longer kept is missing."""
    holders: Mapping[NodeId, HoldersOn] = field(default_factory=dict)
    """Sessions that hold a part of a device, for evidence. As with `used`, a node's mapping is never changed in place:
    what earlier passes found out goes by its identity."""
    asked: Mapping[Request, int] = field(default_factory=dict)
    """How often each request was made, by sessions in the queue and by those before; empty = nothing is known."""
    running: Sequence[RunningRow] = ()
    """Sessions that hold devices, in any order. What is held by nobody named here is reckoned to be held for ever."""
    usage: Usage = field(default_factory=Usage)
    """What users and projects have used."""
    quotas: Mapping[QuotaId, Quota] = field(default_factory=dict)
