"""Read models of sessions and kernels. Times are aware UTC, amounts decimal text."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Generic, TypeVar

from msgspec import Struct

from aliquot_schema.reasons import Reason
from aliquot_schema.resources.leases import HostUse
from aliquot_schema.sessions import DependencyCondition, Priority, Topology
from aliquot_schema.states import KernelState, SessionState
from aliquot_schema.views.forecasts import ForecastView
from aliquot_schema.views.session_parts import (
    FailureView,
    IdleNoticeView,
    ImagePullView,
    PreemptionView,
    PreflightView,
    SavedWorkView,
    SessionServiceView,
)


class AllocatedGpuView(Struct, frozen=True, kw_only=True):
    """A GPU, or a share of one, allocated to a session."""

    node_id: str
    gpu_id: str
    share: float
    """Share of the device, 0 to 1."""
    memory_gb: float
    """Share of the device's memory, in 10^9 bytes."""
    utilization_pct: float | None = None
    """Of the whole device at the last sample, 0 to 100; None once it is released."""


def gpus_in(slots: Iterable[tuple[str, str]]) -> float:
    """Number of GPUs in (slot, amount) pairs; shares count as fractions."""
    return float(sum(Decimal(amount) for slot, amount in slots if slot.endswith((".device", ".shares"))))


T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of an ordered list (keyset pagination)."""

    items: tuple[T, ...]
    cursors: tuple[str, ...]
    """One opaque cursor per item."""
    has_next: bool
    has_previous: bool
    total_count: int
    revision: int
    """Number of the last event included."""


class SlotAmountView(Struct, frozen=True, kw_only=True):
    """An amount of a slot, as text."""

    slot: str
    amount: str


class DeviceAmountView(Struct, frozen=True, kw_only=True):
    """An amount on one device, as text."""

    device_id: str
    amount: str


class SlotGrantView(Struct, frozen=True, kw_only=True):
    """A kernel's allocation of one slot, by device."""

    slot: str
    devices: tuple[DeviceAmountView, ...]


class NameValueView(Struct, frozen=True, kw_only=True):
    """A tag, an environment variable or an attribute."""

    name: str
    value: str


class KernelView(Struct, frozen=True, kw_only=True):
    """One rank of one attempt of a session."""

    id: str
    session_id: str
    attempt: int
    rank: int
    agent_id: str
    state: KernelState
    resource_spec: tuple[SlotGrantView, ...]
    holds_devices: bool
    """Whether its devices are still held."""
    granted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    signal: int | None
    timed_out: bool
    message: str | None
    host_use: HostUse | None = None
    """CPU time and host memory of its processes; None = not measured."""


class DependencyView(Struct, frozen=True, kw_only=True):
    """A session that another one waits for."""

    session_id: str
    condition: DependencyCondition
    state: SessionState | None
    """None = past retention."""


class VerdictView(Struct, frozen=True, kw_only=True):
    """Why a session waits: code, message and evidence."""

    reason: Reason
    message: str
    slot: str | None
    requested: str | None
    available: str | None
    quota: str | None
    limit: str | None
    held: str | None
    may_borrow: bool
    fits_kernels: int | None
    blocked_by: tuple[str, ...]
    agents: tuple[str, ...]
    devices: tuple[str, ...]
    until: datetime | None


class FallbackView(Struct, frozen=True, kw_only=True):
    """A smaller request that replaces the original one after a wait."""

    slots: tuple[SlotAmountView, ...]
    cluster_size: int
    gpu_memory_gb: str | None
    after: float
    """Seconds since its submission."""


class TaskSetView(Struct, frozen=True, kw_only=True):
    """Some tasks of a job array."""

    indices: str
    """Like `0-99,105`; empty = none."""
    count: int


class ArrayTasksView(Struct, frozen=True, kw_only=True):
    """The tasks of a job array by state."""

    waiting: TaskSetView
    active: TaskSetView
    completed: TaskSetView
    failed: TaskSetView
    canceled: TaskSetView
    max_parallel: int | None


class OrderEstimateView(Struct, frozen=True, kw_only=True):
    """Expected run time of a session, and its basis."""

    seconds: float
    explanation: str


class SessionView(Struct, frozen=True, kw_only=True):
    """A session with its kernels, queue position and allocations."""

    id: str
    version: int
    owner: str
    project: str
    pool: str
    name: str | None
    run_id: str | None
    tags: tuple[NameValueView, ...]
    command: tuple[str, ...]
    slots: tuple[SlotAmountView, ...]
    """Per kernel."""
    cluster_size: int
    cluster_size_min: int | None
    gpu_memory_gb: str | None
    environment: tuple[NameValueView, ...]
    working_directory: str | None
    estimated_duration: float | None
    """Seconds."""
    time_limit: float | None
    """Seconds."""
    max_retries: int
    retry_count: int
    preemptible: bool
    depends_on: tuple[DependencyView, ...]
    priority: Priority
    state: SessionState
    attempt: int
    queue_position: int | None
    """From 1, in scheduling order; None = it does not wait for its turn."""
    waits: VerdictView | None
    """Why it waits; None = it does not wait, or no pass has considered it yet."""
    kernels: tuple[KernelView, ...]
    """Kernels of the newest attempt."""
    holds_devices: bool
    """Whether any attempt still holds devices."""
    queued_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    signal: int | None
    failure: FailureView | None
    retries_own_failures: bool = False
    checkpoint_signal: str | None = None
    checkpoint_every: float | None = None
    """Seconds."""
    grace: float | None = None
    """Seconds."""
    labels: tuple[NameValueView, ...] = ()
    preferred_labels: tuple[NameValueView, ...] = ()
    models: tuple[str, ...] = ()
    preferred_models: tuple[str, ...] = ()
    topology: Topology = Topology.PREFER
    fallbacks: tuple[FallbackView, ...] = ()
    fallback_level: int = 0
    preemptions: int = 0
    preemption: PreemptionView | None = None
    idle: IdleNoticeView | None = None
    room_made: str | None = None
    work: SavedWorkView | None = None
    held_by: str | None = None
    array_id: str | None = None
    array_index: int | None = None
    tasks: ArrayTasksView | None = None
    order_estimate: OrderEstimateView | None = None
    order_explanation: str | None = None
    """Terms of its place in the queue; only for a single session."""
    reserve_until: datetime | None = None
    """Expected release of its devices; None = it holds none."""
    expected_start: datetime | None = None
    """Latest start according to its reservation; None = no reservation."""
    forecast: ForecastView | None = None
    """When it is forecast to start; None = it does not wait, and was never told a forecast."""
    services: tuple[SessionServiceView, ...] = ()
    workspace: str | None = None
    activates: str | None = None
    image: str | None = None
    shares_access: bool = False
    preflight: PreflightView | None = None
    """None = its command starts without a check."""
    pull: ImagePullView | None = None
    """The pull of its image in its newest attempt; None = its image was there, or it has none."""
    kept: float = 0.0
    """Seconds of run time whose work it has kept; `kept_at_start` is that at the start of its newest attempt. Parts of
    `SessionStatsView.ettr`."""
    kept_at_start: float = 0.0
    booking: str | None = None
    hidden: tuple[str, ...] = ()
    """Fields hidden from the caller; see `identity.access`."""
    scheduling_policy: str = ""
    """Name of the current order policy."""
    allocated_gpus: tuple[AllocatedGpuView, ...] = ()
    """Of the newest attempt, including released ones."""

    @property
    def requested_gpus(self) -> float:
        """Sum over all kernels, shares included."""
        return gpus_in((slot.slot, slot.amount) for slot in self.slots) * self.cluster_size

    @property
    def requested_memory_gb(self) -> str | None:
        """Minimum memory per device."""
        return self.gpu_memory_gb

    @property
    def allocation_time(self) -> datetime | None:
        """When devices were granted."""
        return self.scheduled_at

    @property
    def estimated_start_time(self) -> datetime | None:
        """Latest start according to its reservation."""
        return self.expected_start

    @property
    def estimated_wait_time(self) -> float | None:
        """Seconds from submission to `estimated_start_time`."""
        return None if self.expected_start is None else (self.expected_start - self.queued_at).total_seconds()


class QueueEntryView(Struct, frozen=True, kw_only=True):
    """A queued session and its position."""

    position: int
    session: SessionView


class QueueUpdateView(Struct, frozen=True, kw_only=True):
    """One committed change of a session, with the queue's length."""

    event_number: int
    at: datetime
    kind: str
    """`session.queued`, `session.running`, ..."""
    session: SessionView
    """State right after this event; kernels and queue position as of sending time."""
    pending: int
    """Number of sessions queued or held at sending time."""


def slot_amounts(pairs: Sequence[tuple[str, str]]) -> tuple[SlotAmountView, ...]:
    """Views of (slot, text) pairs."""
    return tuple(SlotAmountView(slot=slot, amount=amount) for slot, amount in pairs)
