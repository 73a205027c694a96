"""Plan: the decisions of one pass, and the check that a placement still fits the newest state.

A plan changes nothing by itself. Its field names are stored in the ledger.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import NamedTuple

from msgspec import Struct, field

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.layout import DeviceLayout
from aliquot_schema.bookings import BookedDevice, BookingState
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import AgentId, BookingId, DeviceId, NodeId, PoolId, SessionId, UserId, task_id
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.devices import ResourceSpec
from aliquot_schema.sessions import Failure, PreemptionCause


class KernelPlacement(Struct, frozen=True, kw_only=True):
    """The agent and the exact devices of one rank."""

    rank: int
    agent_id: AgentId
    node_id: NodeId
    spec: ResourceSpec


class Placement(Struct, frozen=True, kw_only=True):
    """All ranks of a session. `version` is the session's version in the snapshot."""

    session_id: SessionId
    version: int
    kernels: tuple[KernelPlacement, ...]
    """One per kernel of the session, in order of rank."""
    index: int | None = None
    """The placed task of a job array, whose id is `session_id`; None = not an array."""

    @property
    def run_id(self) -> SessionId:
        """The id of the session or task while it runs."""
        return self.session_id if self.index is None else task_id(self.session_id, index=self.index)


class Reservation(Struct, frozen=True, kw_only=True):
    """A promise to a waiting session: it starts at this time on these devices, or sooner."""

    session_id: SessionId
    at_us: int | None
    """When the last session that it waits for is expected to have ended, microseconds UTC, later than the pass. None
    only in records of releases that reserved no time while such a session was overdue."""
    kernels: tuple[KernelPlacement, ...]


class Eviction(Struct, frozen=True, kw_only=True):
    """A session to preempt. `version` is the session's version in the snapshot."""

    session_id: SessionId
    version: int
    cause: PreemptionCause
    by_session: SessionId | None
    """The session that it is preempted for; that one starts once all of its victims have ended."""
    by_user: UserId
    grace_ms: int
    ends: bool = False
    """Whether it fails instead of being queued again: the policy ends idle sessions."""


class BookingDecision(Struct, frozen=True, kw_only=True):
    """The new state of a booking. `version` is its version in the snapshot."""

    booking_id: BookingId
    version: int
    state: BookingState
    devices: tuple[BookedDevice, ...] = ()
    ends_us: int
    refusal: str | None = None
    """Why it, or its extension, is refused, as a sentence."""


class ExtensionDecision(Struct, frozen=True, kw_only=True):
    """Whether a running session gets the later time limit that its owner asks for."""

    session_id: SessionId
    limit_us: int
    """The end that was asked for, microseconds UTC."""
    refusal: str | None = None
    """Who would start later for it, as a sentence; None = it is granted."""


class BacklogPeak(NamedTuple):
    """A peak of a pool's backlog: its predicted work not yet done, divided by its size."""

    peak_ms: int
    at_us: int
    """Since when it decays, microseconds UTC."""


class Plan(Struct, frozen=True, kw_only=True):
    """Decisions of one pass. Every pending session is in exactly one of `placements`, `failures` and `verdicts`; a job
    array with both starting and waiting tasks is in `placements` and in `verdicts`."""

    placements: tuple[Placement, ...] = ()
    """In the order of their start."""
    failures: Mapping[SessionId, Failure] = field(default_factory=dict)
    """Sessions that can never run."""
    verdicts: Mapping[SessionId, Verdict] = field(default_factory=dict)
    """Why each of the others waits, in queue order."""
    wake_at_us: int | None = None
    """When the next pass is due even without an event, microseconds UTC."""
    reservation: Reservation | None = None
    """Reservation of the head of the queue, or of the pool that comes first in it, under a policy with backfill."""
    promises: tuple[Reservation, ...] = ()
    """All reservations of conservative backfill, in queue order; the head's is the first. Of easy backfill those of the
    heads of pools, if several have one."""
    evictions: tuple[Eviction, ...] = ()
    """Sessions to preempt, in the order of decision."""
    fallbacks: Mapping[SessionId, int] = field(default_factory=dict)
    """New `fallback_level` of sessions whose fallback is due."""
    backlogs: Mapping[PoolId, BacklogPeak] = field(default_factory=dict)
    """New peaks; pools whose backlog is below their last peak are missing."""
    bookings: tuple[BookingDecision, ...] = ()
    """Bookings that change, in the order of decision."""
    extensions: tuple[ExtensionDecision, ...] = ()
    """In the order of the sessions' ids."""

    def promised_us(self) -> dict[SessionId, int]:
        """Latest start of every session with a reservation, microseconds UTC."""
        promises = self.promises if self.reservation is None else (self.reservation, *self.promises)
        return {promise.session_id: promise.at_us for promise in promises if promise.at_us is not None}

    def starts_us(self, *, now_us: int) -> dict[SessionId, int]:
        """When sessions start: those placed now, the others as reserved."""
        return self.promised_us() | {placement.session_id: now_us for placement in self.placements}


def devices_held(kernels: Iterable[KernelPlacement]) -> set[BookedDevice]:
    """The devices that kernels hold, wholly or in part."""
    return {
        BookedDevice(kernel.node_id, device_id)
        for kernel in kernels
        for given in kernel.spec.values()
        for device_id in given
    }


def still_fits(
    placement: Placement,
    *,
    layouts: Mapping[AgentId, DeviceLayout],
    used: MutableMapping[NodeId, Mapping[DeviceId, int]],
) -> bool:
    """Whether every kernel can still get exactly the planned devices.

    Args:
        layouts: present layouts of the agents.
        used: budget units held per node; the placement is added to it if it fits.
    """
    after: dict[NodeId, Mapping[DeviceId, int]] = {}
    for kernel in placement.kernels:
        layout = layouts.get(kernel.agent_id)
        if layout is None:
            return False
        held = after.get(kernel.node_id)
        devices = DeviceMap(layout, used.get(kernel.node_id, {}) if held is None else held)
        try:
            devices.check(kernel.spec)
        except (AllocationRefused, InvalidRequest):
            return False
        after[kernel.node_id] = devices.apply(kernel.spec).used
    used.update(after)
    return True
