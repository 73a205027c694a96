"""A plan: what one pass decided. It changes nothing by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import AgentId, NodeId, SessionId, UserId
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Failure, PreemptionCause


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlacement:
    """Where one rank goes, and exactly what it gets there."""

    rank: int
    agent_id: AgentId
    node_id: NodeId
    spec: ResourceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """All ranks of a session. `version` is the session's when it was decided."""

    session_id: SessionId
    version: int
    kernels: tuple[KernelPlacement, ...]
    """In order of rank, one for each kernel of the session."""
    index: int | None = None
    """Of a job array: the task that is placed; `session_id` is the array's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What the head of the queue is promised: it starts at this time on these devices, or sooner."""

    session_id: SessionId
    at_us: int | None
    """When the last of those it waits for has to be gone, microseconds UTC; None = they are overdue, and it starts as
    soon as they end."""
    kernels: tuple[KernelPlacement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A session that is to make room. `version` is the session's when it was decided."""

    session_id: SessionId
    version: int
    cause: PreemptionCause
    by_session: SessionId | None
    """Who starts in its place, whole, once all that are to make room for it have."""
    by_user: UserId
    grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass decided. Every pending session is in exactly one of `placements`, `failures` and `verdicts`; a job
    array with tasks that start and tasks that wait is in `placements` and in `verdicts`."""

    placements: tuple[Placement, ...] = ()
    """In the order in which they are to start."""
    failures: Mapping[SessionId, Failure] = field(default_factory=dict)
    """Sessions that can never run any more."""
    verdicts: Mapping[SessionId, Verdict] = field(default_factory=dict)
    """Why each of the others waits, in queue order: what this pass looks at next stands first."""
    wake_at_us: int | None = None
    """When a pass is worth running even if nothing happens, microseconds UTC."""
    reservation: Reservation | None = None
    """The promise to the head, under a policy that lets others pass it."""
    promises: tuple[Reservation, ...] = ()
    """Under conservative backfill, the promises to all that hold one, in queue order; the head's is the first."""
    evictions: tuple[Eviction, ...] = ()
    """Who is to make room, in the order in which it was found out."""
    fallbacks: Mapping[SessionId, int] = field(default_factory=dict)
    """The level that a session's `fallback_level` moves to, for those whose time has come."""

    def promised_us(self) -> dict[SessionId, int]:
        """When those start at the latest that are promised a time, microseconds UTC."""
        promises = self.promises if self.reservation is None else (self.reservation, *self.promises)
        return {promise.session_id: promise.at_us for promise in promises if promise.at_us is not None}
