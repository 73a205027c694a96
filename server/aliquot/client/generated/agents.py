"""Agents.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import (
    AgentState,
    AllocationMode,
    DeviceAccess,
    DeviceHealth,
    Isolation,
    KernelState,
    LeaseKind,
)
from aliquot.client.generated.scalars import NameValue, SlotAmount, SlotGrant


class Holder(Struct, frozen=True, kw_only=True):
    """A holder of a device, or of a share of it."""

    lease_id: str
    """The lease."""
    kind: LeaseKind
    """Kind of the lease."""
    user: str
    """The owner."""
    session_id: str | None
    """The session, if one holds it."""
    kernel_id: str | None
    """The kernel, if one holds it."""
    agent_id: str
    """The agent of the lease; on a shared device possibly another than the one listing it."""
    share: str
    """Share of the device: 1.00 is one whole device of capacity 1."""
    since: datetime
    """When it was granted."""
    until: datetime | None
    """When the lease expires; null = it does not."""
    isolation: Isolation
    """Isolation of this holder from the others."""


class Device(Struct, frozen=True, kw_only=True):
    """A device with its health, holders and latest reading."""

    id: str
    """Stable over reboots; a GPU's UUID."""
    name: str
    """Kind and index, like `cuda0`."""
    kind: str
    """Prefix of its slots: cuda, rocm, cpu or mem."""
    model: str
    """The vendor's model name."""
    health: DeviceHealth
    """Whether it can be allocated to new sessions."""
    isolation: Isolation
    """Isolation between its holders."""
    numa_node: int | None
    """Its NUMA node; null if unknown."""
    parent_id: str | None
    """The whole device that this slice belongs to."""
    linked_to: tuple[str, ...]
    """Devices connected by a direct link, like NVLink or NVSwitch."""
    link_group: int | None
    """Devices of one agent with the same number are connected by such links; null = no links."""
    memory_bytes: int
    """Its own memory in bytes; 0 = none."""
    capacity: str
    """Total capacity: shares for accelerators, else cores or bytes."""
    used: str
    """Held part, in the unit of `capacity`."""
    free: str
    """Free part, in the unit of `capacity`."""
    holders: tuple[Holder, ...]
    """Its holders, including those of other agents."""
    utilization_pct: float | None
    """Utilization at the last sample, 0 to 100."""
    memory_used_bytes: int | None
    """Memory in use at the last sample, in bytes."""
    temperature_c: float | None
    """Degrees Celsius at the last sample."""
    power_w: float | None
    """Watts at the last sample."""
    foreign_usage: bool
    """Whether it is withheld because processes that Aliquot did not start use it."""
    foreign_users: tuple[str, ...]
    """
    Unix accounts of the processes on it that Aliquot did not start; also given while the setting `foreign-usage`
    ignores such processes.
    """
    external: bool
    """The old name of `foreign_usage`."""


class Kernel(Struct, frozen=True, kw_only=True):
    """One rank of one attempt of a session: a process tree on one agent."""

    id: str
    """`<session>.<attempt>.<rank>`."""
    session_id: str
    """Its session."""
    attempt: int
    """Number of the attempt, from 1."""
    rank: int
    """Rank in the session, from 0."""
    agent_id: str
    """The agent it runs on."""
    state: KernelState
    """State of the kernel."""
    resource_spec: tuple[SlotGrant, ...]
    """Its exact allocation, by slot and device."""
    holds_devices: bool
    """Whether its devices are still held."""
    granted_at: datetime
    """When its devices were granted."""
    started_at: datetime | None
    """When its process started."""
    ended_at: datetime | None
    """When its last process was gone."""
    exit_code: int | None
    """Exit code; null while it runs, and if a signal ended it."""
    signal: int | None
    """The signal that ended it."""
    timed_out: bool
    """Whether the time limit ended it."""
    message: str | None
    """Why it could not be started, or how far its files are on their way to the agent."""


class Enforcement(Struct, frozen=True, kw_only=True):
    """
    Mechanism that enforces each limit of kernels: cgroup_v2, cgroup_v1, rlimit, shim (the process that owns a kernel),
    or none.
    """

    memory: str
    """Limit of `mem`; with rlimit it applies to each process separately."""
    processes: str
    """
    Limit of processes; with rlimit it applies only to sessions that set one, and counts all processes of their account.
    """
    cpu: str
    """Limit of CPU time to the granted cores."""
    open_files: str
    """Limit of open files per process."""
    file_size: str
    """Limit of the size of a file, if the operator set one."""
    wall_time: str
    """Limit of `time_limit`."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of an agent on its node, as detected."""

    kill: str
    """How process trees are killed: cgroup_v2, cgroup_v1 or subreaper."""
    limits: str
    """How memory is limited: cgroup_v2, cgroup_v1 or rlimits."""
    switches_user: bool
    """Whether jobs can run as another Unix account."""
    device_access: DeviceAccess
    """How jobs are kept from devices they were not allocated."""
    enforced: Enforcement
    """Mechanism that enforces each limit."""
    sandbox: str
    """The available sandbox profile: standard or none."""
    sandbox_mode: str
    """When kernels run in it: required, when-possible, when-asked or off."""
    sandbox_note: str
    """Why no sandbox is available; empty if one is."""
    containers: str
    """The program that runs containers: `podman`, `docker`, `apptainer` or `none`."""
    containers_note: str
    """Why it runs none; empty if it does."""
    images: tuple[str, ...]
    """
    Container images that it holds for its default job account, at most 64, sorted; empty for users who are not
    operators.
    """


class Agent(Struct, frozen=True, kw_only=True):
    """An agent: the process that owns devices of a node and runs kernels on them."""

    id: str
    """Unique in the cluster."""
    version: int
    """Incremented by every change."""
    node_id: str
    """Its host; agents on one host share it."""
    hostname: str
    """Name of the host."""
    state: AgentState
    """State of the agent, as the server sees it."""
    schedulable: bool
    """Whether it accepts new work."""
    pool: str
    """Its pool."""
    labels: tuple[NameValue, ...]
    """Labels set by operators or told by the agent; sessions can require them."""
    eviction: str | None
    """Why its node is about to be taken away, so that nothing new is placed on it; null if it is not."""
    draining: bool
    """Whether it is drained: nothing new is placed on it."""
    drained: bool
    """Whether it is draining and nothing on it is held any more."""
    note: str | None
    """Why it is not schedulable, in the operator's words."""
    capacity: tuple[SlotAmount, ...]
    """Total capacity, by slot."""
    occupied: tuple[SlotAmount, ...]
    """Held capacity, by slot; includes what other agents that share its devices have granted."""
    devices: tuple[Device, ...]
    """Its devices, in natural order."""
    kernels: tuple[Kernel, ...]
    """The kernels that hold devices here."""
    gpu_alloc_map: str
    """
    JSON text: an object that maps each accelerator's id to the shares held, with at least two decimal places; 0.00 for
    idle ones. It shows the state of the devices: agents that share a device show the same amount, whichever of them
    granted it.
    """
    allocation_mode: AllocationMode
    """How its node's devices are divided among agents."""
    scaling_factors: tuple[SlotAmount, ...]
    """Its part of the node by slot: 0.4 is 2 of 5."""
    attributes: tuple[NameValue, ...]
    """Attributes from its accelerator configuration file."""
    capabilities: Capabilities
    """Its detected capabilities."""
    software_version: str
    """Version of the agent's software."""
    registered_at: datetime
    """When it first registered."""
    state_changed_at: datetime
    """When its state last changed."""


class Gpu(Struct, frozen=True, kw_only=True):
    """A GPU in summary; see `Device` for details."""

    id: str
    """Stable over reboots; its UUID."""
    node_id: str
    """Its host."""
    name: str
    """Kind and index, like `cuda0`."""
    model: str
    """The vendor's model name."""
    available: bool
    """Whether its free part can be allocated."""
    memory_total: int
    """Memory in bytes."""
    memory_used: int | None
    """Memory in use at the last sample, in bytes."""
    utilization: float | None
    """Utilization at the last sample, in percent."""
    temperature: float | None
    """Degrees Celsius at the last sample."""
    allocated: float
    """Share that is held, 0 to 1."""
    allocated_to: tuple[Holder, ...]
    """Its holders."""
