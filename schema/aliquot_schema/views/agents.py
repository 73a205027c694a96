"""Read models of agents and devices. Times are aware UTC, amounts decimal text."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.cluster.agents import AllocationMode
from aliquot_schema.resources.confinement import UNKNOWN_ENFORCEMENT, Enforcement
from aliquot_schema.resources.devices import DeviceAccess, DeviceHealth, Isolation
from aliquot_schema.resources.leases import LeaseKind
from aliquot_schema.states import AgentState
from aliquot_schema.views.sessions import KernelView, NameValueView, SlotAmountView


class CapabilitiesView(Struct, frozen=True, kw_only=True):
    """Detected capabilities of an agent on its node."""

    kill: str
    limits: str
    switches_user: bool
    device_access: DeviceAccess
    enforced: Enforcement = UNKNOWN_ENFORCEMENT
    sandbox: str = "none"
    sandbox_mode: str = "off"
    sandbox_note: str = ""
    containers: str = "none"
    containers_note: str = ""
    images: tuple[str, ...] = ()


class HolderView(Struct, frozen=True, kw_only=True):
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


class DeviceView(Struct, frozen=True, kw_only=True):
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


class AgentView(Struct, frozen=True, kw_only=True):
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
    eviction: str | None = None
    draining: bool = False
    drained: bool = False
    """Whether it is draining and nothing on it is held any more."""
    note: str | None = None
