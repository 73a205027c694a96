"""Read models of sessions, kernels, agents and devices. Times are aware UTC, amounts decimal text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Generic, TypeVar

from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.confinement import UNKNOWN_ENFORCEMENT, Enforcement
from aliquot_schema.resources.devices import DeviceAccess, DeviceHealth, Isolation
from aliquot_schema.resources.leases import LeaseKind
from aliquot_schema.sessions import DependencyCondition, PreemptionCause, Priority
from aliquot_schema.states import AgentState, KernelState, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedGpuView:
    """A GPU, or a share of one, allocated to a session."""

    node_id: str
    gpu_id: str
    share: float
    """Share of the device, 0 to 1."""
    memory_gb: float
    """Share of the device's memory, in 10^9 bytes."""


def gpus_in(slots: Iterable[tuple[str, str]]) -> float:
    """Number of GPUs in (slot, amount) pairs; shares count as fractions."""
    return float(sum(Decimal(amount) for slot, amount in slots if slot.endswith((".device", ".shares"))))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilitiesView:
    """Detected capabilities of an agent on its node."""

    kill: str
    limits: str
    switches_user: bool
    device_access: DeviceAccess
    enforced: Enforcement = UNKNOWN_ENFORCEMENT
    sandbox: str = "none"
    sandbox_mode: str = "off"
    sandbox_note: str = ""


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A page of an ordered list (keyset pagination)."""

    items: tuple[T, ...]
    cursors: tuple[str, ...]
    """One opaque cursor per item."""
    has_next: bool
    has_previous: bool
    total_count: int
    revision: int
    """Number of the last event included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAmountView:
    """An amount of a slot, as text."""

    slot: str
    amount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAmountView:
    """An amount on one device, as text."""

    device_id: str
    amount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotGrantView:
    """A kernel's allocation of one slot, by device."""

    slot: str
    devices: tuple[DeviceAmountView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameValueView:
    """A tag, an environment variable or an attribute."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderView:
    """A holder of a device or of a share of it."""

    lease_id: str
    kind: LeaseKind
    user: str
    session_id: str | None
    kernel_id: str | None
    agent_id: str
    """The agent of the lease; on a shared device possibly another than the one listing it."""
    share: str
    """`1.00` = one whole device of capacity 1."""
    since: datetime
    until: datetime | None
    isolation: Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """A device with its health, holders and latest reading."""

    id: str
    name: str
    kind: str
    model: str
    health: DeviceHealth
    isolation: Isolation
    numa_node: int | None
    parent_id: str | None
    memory_bytes: int
    capacity: str
    """In shares for accelerators, cores or bytes for the host's devices."""
    used: str
    free: str
    holders: tuple[HolderView, ...]
    utilization_pct: float | None
    memory_used_bytes: int | None
    temperature_c: float | None
    power_w: float | None
    foreign_usage: bool = False
    """Whether it is withheld because processes that Aliquot did not start use it."""
    foreign_users: tuple[str, ...] = ()
    """Unix accounts of these processes, also where they are ignored."""
    linked_to: tuple[str, ...] = ()
    link_group: int | None = None

    @property
    def external(self) -> bool:
        """Deprecated name of `foreign_usage`."""
        return self.foreign_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """An agent, its devices and what runs on it."""

    id: str
    version: int
    node_id: str
    hostname: str
    state: AgentState
    schedulable: bool
    capacity: tuple[SlotAmountView, ...]
    occupied: tuple[SlotAmountView, ...]
    devices: tuple[DeviceView, ...]
    kernels: tuple[KernelView, ...]
    """Kernels that hold devices."""
    gpu_alloc_map: str
    """JSON text `{device id: shares held}`, at least two decimal places, every accelerator, in natural order. Shares
    count whichever agent granted them, so agents that share a device show the same amount."""
    allocation_mode: AllocationMode
    scaling_factors: tuple[SlotAmountView, ...]
    attributes: tuple[NameValueView, ...]
    capabilities: CapabilitiesView
    software_version: str
    registered_at: datetime
    state_changed_at: datetime
    pool: str = "default"
    labels: tuple[NameValueView, ...] = ()
    draining: bool = False
    drained: bool = False
    """Whether it is draining and nothing on it is held any more."""
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyView:
    """A session that another one waits for."""

    session_id: str
    condition: DependencyCondition
    state: SessionState | None
    """None = past retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    """Why a session failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackView:
    """A smaller request that replaces the original one after a wait."""

    slots: tuple[SlotAmountView, ...]
    cluster_size: int
    gpu_memory_gb: str | None
    after: float
    """Seconds since its submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """The last preemption of a session."""

    cause: PreemptionCause
    by_session: str | None
    by_user: str
    at: datetime
    until: datetime
    lost_gpu_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetView:
    """Some tasks of a job array."""

    indices: str
    """Like `0-99,105`; empty = none."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasksView:
    """The tasks of a job array by state."""

    waiting: TaskSetView
    active: TaskSetView
    completed: TaskSetView
    failed: TaskSetView
    canceled: TaskSetView
    max_parallel: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEstimateView:
    """Expected run time of a session, and its basis."""

    seconds: float
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
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
    """From 1, in scheduling order; None = not queued."""
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
    grace: float | None = None
    """Seconds."""
    labels: tuple[NameValueView, ...] = ()
    preferred_labels: tuple[NameValueView, ...] = ()
    models: tuple[str, ...] = ()
    preferred_models: tuple[str, ...] = ()
    fallbacks: tuple[FallbackView, ...] = ()
    fallback_level: int = 0
    preemptions: int = 0
    preemption: PreemptionView | None = None
    held_by: str | None = None
    array_id: str | None = None
    array_index: int | None = None
    tasks: ArrayTasksView | None = None
    order_estimate: OrderEstimateView | None = None
    reserve_until: datetime | None = None
    """Expected release of its devices; None = it holds none."""
    expected_start: datetime | None = None
    """Latest start according to its reservation; None = no reservation."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntryView:
    """A queued session and its position."""

    position: int
    session: SessionView


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUpdateView:
    """One committed change of a session, with the queue's length."""

    event_number: int
    at: datetime
    kind: str
    """`session.queued`, `session.running`, ..."""
    session: SessionView
    """State right after this event; kernels and queue position as of sending time."""
    pending: int
    """Number of sessions queued or held at sending time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunkView:
    """A piece of a kernel's output."""

    session_id: str
    kernel_id: str
    rank: int
    offset: int
    """Offset of the first byte."""
    next_offset: int
    """Offset of the next request."""
    text: str
    """Decoded as UTF-8; invalid bytes become U+FFFD."""
    at_end: bool


def slot_amounts(pairs: Sequence[tuple[str, str]]) -> tuple[SlotAmountView, ...]:
    """Views of (slot, text) pairs."""
    return tuple(SlotAmountView(slot=slot, amount=amount) for slot, amount in pairs)
