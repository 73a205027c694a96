"""Read models: what people see, as frozen values with plain attributes. Times are aware UTC, amounts decimal text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from aliquot_schema.agents import AllocationMode
from aliquot_schema.capability_views import CapabilitiesView as CapabilitiesView
from aliquot_schema.devices import DeviceHealth, Isolation
from aliquot_schema.gpu_views import AllocatedGpuView, gpus_in
from aliquot_schema.leases import LeaseKind
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import DependencyCondition, PreemptionCause, Priority
from aliquot_schema.states import AgentState, KernelState, SessionState

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A piece of an ordered list, cut by keyset."""

    items: tuple[T, ...]
    cursors: tuple[str, ...]
    """One per item, opaque."""
    has_next: bool
    has_previous: bool
    total_count: int
    revision: int
    """The event number that the whole page was read at."""


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
    """What a kernel was given of one slot, device by device."""

    slot: str
    devices: tuple[DeviceAmountView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameValueView:
    """A tag, an environment variable or an attribute."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderView:
    """Who holds a part of a device."""

    lease_id: str
    kind: LeaseKind
    user: str
    session_id: str | None
    kernel_id: str | None
    agent_id: str
    """The agent through which it is held; on a shared device not always the one that shows it."""
    share: str
    """Of the device: `1.00` is one whole device of capacity 1."""
    since: datetime
    until: datetime | None
    isolation: Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """One device: what it is, how it is, and who holds it."""

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
    """In shares for accelerators, cores or bytes for the host's own."""
    used: str
    free: str
    holders: tuple[HolderView, ...]
    utilization_pct: float | None
    memory_used_bytes: int | None
    temperature_c: float | None
    power_w: float | None
    external: bool = False
    """Whether processes that are none of ours are on it, and it is kept from everybody."""
    linked_to: tuple[str, ...] = ()
    link_group: int | None = None


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
    """Those that hold devices."""
    gpu_alloc_map: str
    """JSON text: `{device id: shares held, at least two places}`, every accelerator, in natural order."""
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
    """It is draining, and nobody holds anything of it any more."""
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyView:
    """A session that another one waits for."""

    session_id: str
    condition: DependencyCondition
    state: SessionState | None
    """None when it is no longer kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """Why a session waits, in a code, in words, and with what it rests on."""

    reason: Reason
    message: str
    slot: str | None
    requested: str | None
    available: str | None
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
    """A smaller request that a session settles for after a wait."""

    slots: tuple[SlotAmountView, ...]
    cluster_size: int
    gpu_memory_gb: str | None
    after: float
    """Seconds since its submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """The last time that a session was asked to make room."""

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
    """As it was asked for: `0-99,105`; empty when there are none."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTasksView:
    """Where the tasks of a job array are."""

    waiting: TaskSetView
    active: TaskSetView
    completed: TaskSetView
    failed: TaskSetView
    canceled: TaskSetView
    max_parallel: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEstimateView:
    """How long a session is expected to run, and what that rests on."""

    seconds: float
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session, its kernels, and where it stands."""

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
    """From 1, in the order in which the allocator looks; None when not queued."""
    waits: VerdictView | None
    """Why it waits; None when it does not, or when no pass has seen it yet."""
    kernels: tuple[KernelView, ...]
    """Of the newest attempt."""
    holds_devices: bool
    """Whether any device is still held for it, an older attempt's included."""
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
    """When it is reckoned to have given its devices back; None when it holds none."""
    expected_start: datetime | None = None
    """When it starts at the latest, as far as a reservation promises; None when it holds none."""
    hidden: tuple[str, ...] = ()
    """Fields that are not the caller's to see, see `privacy`."""

    scheduling_policy: str = ""
    """Who is next now, by name."""
    allocated_gpus: tuple[AllocatedGpuView, ...] = ()
    """Of the newest attempt, given back or not."""

    @property
    def requested_gpus(self) -> float:
        """Of all kernels together, shares included."""
        return gpus_in((slot.slot, slot.amount) for slot in self.slots) * self.cluster_size

    @property
    def requested_memory_gb(self) -> str | None:
        """The least memory per device."""
        return self.gpu_memory_gb

    @property
    def allocation_time(self) -> datetime | None:
        """When devices were granted."""
        return self.scheduled_at

    @property
    def estimated_start_time(self) -> datetime | None:
        """When it starts at the latest, as far as a reservation promises."""
        return self.expected_start

    @property
    def estimated_wait_time(self) -> float | None:
        """Seconds from its submission to that time."""
        return None if self.expected_start is None else (self.expected_start - self.queued_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntryView:
    """A place in the queue."""

    position: int
    session: SessionView


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUpdateView:
    """One committed change of a session, and how long the queue is."""

    event_number: int
    at: datetime
    kind: str
    """`session.queued`, `session.running`, ..."""
    session: SessionView
    """As it was right after this event; its kernels and its place in the queue are those of the moment it is sent."""
    pending: int
    """Sessions queued or held when this is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunkView:
    """A piece of a kernel's output."""

    session_id: str
    kernel_id: str
    rank: int
    offset: int
    """Of the first byte."""
    next_offset: int
    """Ask with this one to go on."""
    text: str
    """UTF-8; bytes that are not are shown as U+FFFD."""
    at_end: bool


def slot_amounts(pairs: Sequence[tuple[str, str]]) -> tuple[SlotAmountView, ...]:
    """Make amounts from (slot, text) pairs."""
    return tuple(SlotAmountView(slot=slot, amount=amount) for slot, amount in pairs)
