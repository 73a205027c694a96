"""GraphQL types of agents, devices, holders and kernels."""

from datetime import datetime
from typing import Final

import strawberry

from aliquot_schema.deprecation import Deprecation
from aliquot_schema.graphql.enums import (
    AgentState,
    AllocationMode,
    DeviceAccess,
    DeviceHealth,
    Isolation,
    KernelState,
    LeaseKind,
)
from aliquot_schema.graphql.scalars import BigInt, NameValue, SlotAmount, SlotGrant

_WAS_EXTERNAL: Final = Deprecation(old="Device.external", new="foreign_usage", removed_in="0.3")


@strawberry.type(description="One rank of one attempt of a session: a process tree on one agent.")
class Kernel:
    id: strawberry.ID = strawberry.field(description="`<session>.<attempt>.<rank>`.")
    session_id: strawberry.ID = strawberry.field(description="Its session.")
    attempt: int = strawberry.field(description="Number of the attempt, from 1.")
    rank: int = strawberry.field(description="Rank in the session, from 0.")
    agent_id: strawberry.ID = strawberry.field(description="The agent it runs on.")
    state: KernelState = strawberry.field(description="State of the kernel.")
    resource_spec: list[SlotGrant] = strawberry.field(description="Its exact allocation, by slot and device.")
    holds_devices: bool = strawberry.field(description="Whether its devices are still held.")
    granted_at: datetime = strawberry.field(description="When its devices were granted.")
    started_at: datetime | None = strawberry.field(description="When its process started.")
    ended_at: datetime | None = strawberry.field(description="When its last process was gone.")
    exit_code: int | None = strawberry.field(description="Exit code; null while it runs, and if a signal ended it.")
    signal: int | None = strawberry.field(description="The signal that ended it.")
    timed_out: bool = strawberry.field(description="Whether the time limit ended it.")
    message: str | None = strawberry.field(
        description="Why it could not be started, or how far its files are on their way to the agent."
    )


@strawberry.type(description="A holder of a device, or of a share of it.")
class Holder:
    lease_id: strawberry.ID = strawberry.field(description="The lease.")
    kind: LeaseKind = strawberry.field(description="Kind of the lease.")
    user: str = strawberry.field(description="The owner.")
    session_id: strawberry.ID | None = strawberry.field(description="The session, if one holds it.")
    kernel_id: strawberry.ID | None = strawberry.field(description="The kernel, if one holds it.")
    agent_id: strawberry.ID = strawberry.field(
        description="The agent of the lease; on a shared device possibly another than the one listing it."
    )
    share: str = strawberry.field(description="Share of the device: 1.00 is one whole device of capacity 1.")
    since: datetime = strawberry.field(description="When it was granted.")
    until: datetime | None = strawberry.field(description="When the lease expires; null = it does not.")
    isolation: Isolation = strawberry.field(description="Isolation of this holder from the others.")


@strawberry.type(description="A device with its health, holders and latest reading.")
class Device:
    id: strawberry.ID = strawberry.field(description="Stable over reboots; a GPU's UUID.")
    name: str = strawberry.field(description="Kind and index, like `cuda0`.")
    kind: str = strawberry.field(description="Prefix of its slots: cuda, rocm, cpu or mem.")
    model: str = strawberry.field(description="The vendor's model name.")
    health: DeviceHealth = strawberry.field(description="Whether it can be allocated to new sessions.")
    isolation: Isolation = strawberry.field(description="Isolation between its holders.")
    numa_node: int | None = strawberry.field(description="Its NUMA node; null if unknown.")
    parent_id: strawberry.ID | None = strawberry.field(description="The whole device that this slice belongs to.")
    linked_to: list[strawberry.ID] = strawberry.field(
        description="Devices connected by a direct link, like NVLink or NVSwitch."
    )
    link_group: int | None = strawberry.field(
        description="Devices of one agent with the same number are connected by such links; null = no links."
    )
    memory_bytes: BigInt = strawberry.field(description="Its own memory in bytes; 0 = none.")
    capacity: str = strawberry.field(description="Total capacity: shares for accelerators, else cores or bytes.")
    used: str = strawberry.field(description="Held part, in the unit of `capacity`.")
    free: str = strawberry.field(description="Free part, in the unit of `capacity`.")
    holders: list[Holder] = strawberry.field(description="Its holders, including those of other agents.")
    utilization_pct: float | None = strawberry.field(description="Utilization at the last sample, 0 to 100.")
    memory_used_bytes: BigInt | None = strawberry.field(description="Memory in use at the last sample, in bytes.")
    temperature_c: float | None = strawberry.field(description="Degrees Celsius at the last sample.")
    power_w: float | None = strawberry.field(description="Watts at the last sample.")
    foreign_usage: bool = strawberry.field(
        description="Whether it is withheld because processes that Aliquot did not start use it."
    )
    foreign_users: list[str] = strawberry.field(
        description="Unix accounts of the processes on it that Aliquot did not start; also given while the setting "
        "`foreign-usage` ignores such processes."
    )
    external: bool = strawberry.field(
        description="The old name of `foreign_usage`.", deprecation_reason=_WAS_EXTERNAL.reason
    )


@strawberry.type(description="A GPU in summary; see `Device` for details.")
class Gpu:
    id: strawberry.ID = strawberry.field(description="Stable over reboots; its UUID.")
    node_id: strawberry.ID = strawberry.field(description="Its host.")
    name: str = strawberry.field(description="Kind and index, like `cuda0`.")
    model: str = strawberry.field(description="The vendor's model name.")
    available: bool = strawberry.field(description="Whether its free part can be allocated.")
    memory_total: BigInt = strawberry.field(description="Memory in bytes.")
    memory_used: BigInt | None = strawberry.field(description="Memory in use at the last sample, in bytes.")
    utilization: float | None = strawberry.field(description="Utilization at the last sample, in percent.")
    temperature: float | None = strawberry.field(description="Degrees Celsius at the last sample.")
    allocated: float = strawberry.field(description="Share that is held, 0 to 1.")
    allocated_to: list[Holder] = strawberry.field(description="Its holders.")


@strawberry.type(
    description="Mechanism that enforces each limit of kernels: cgroup_v2, cgroup_v1, rlimit, shim (the process that "
    "owns a kernel), or none."
)
class Enforcement:
    memory: str = strawberry.field(description="Limit of `mem`; with rlimit it applies to each process separately.")
    processes: str = strawberry.field(
        description="Limit of processes; with rlimit it applies only to sessions that set one, and counts all "
        "processes of their account."
    )
    cpu: str = strawberry.field(description="Limit of CPU time to the granted cores.")
    open_files: str = strawberry.field(description="Limit of open files per process.")
    file_size: str = strawberry.field(description="Limit of the size of a file, if the operator set one.")
    wall_time: str = strawberry.field(description="Limit of `time_limit`.")


@strawberry.type(description="Capabilities of an agent on its node, as detected.")
class Capabilities:
    kill: str = strawberry.field(description="How process trees are killed: cgroup_v2, cgroup_v1 or subreaper.")
    limits: str = strawberry.field(description="How memory is limited: cgroup_v2, cgroup_v1 or rlimits.")
    switches_user: bool = strawberry.field(description="Whether jobs can run as another Unix account.")
    device_access: DeviceAccess = strawberry.field(
        description="How jobs are kept from devices they were not allocated."
    )
    enforced: Enforcement = strawberry.field(description="Mechanism that enforces each limit.")
    sandbox: str = strawberry.field(description="The available sandbox profile: standard or none.")
    sandbox_mode: str = strawberry.field(
        description="When kernels run in it: required, when-possible, when-asked or off."
    )
    sandbox_note: str = strawberry.field(description="Why no sandbox is available; empty if one is.")
    containers: str = strawberry.field(
        description="The program that runs containers: `podman`, `docker`, `apptainer` or `none`."
    )
    containers_note: str = strawberry.field(description="Why it runs none; empty if it does.")
    images: list[str] = strawberry.field(
        description="Container images that it holds for its default job account, at most 64, sorted; empty for users "
        "who are not operators."
    )


@strawberry.type(description="An agent: the process that owns devices of a node and runs kernels on them.")
class Agent:
    id: strawberry.ID = strawberry.field(description="Unique in the cluster.")
    version: int = strawberry.field(description="Incremented by every change.")
    node_id: str = strawberry.field(description="Its host; agents on one host share it.")
    hostname: str = strawberry.field(description="Name of the host.")
    state: AgentState = strawberry.field(description="State of the agent, as the server sees it.")
    schedulable: bool = strawberry.field(description="Whether it accepts new work.")
    pool: str = strawberry.field(description="Its pool.")
    labels: list[NameValue] = strawberry.field(
        description="Labels set by operators or told by the agent; sessions can require them."
    )
    eviction: str | None = strawberry.field(
        description="Why its node is about to be taken away, so that nothing new is placed on it; null if it is not."
    )
    draining: bool = strawberry.field(description="Whether it is drained: nothing new is placed on it.")
    drained: bool = strawberry.field(description="Whether it is draining and nothing on it is held any more.")
    note: str | None = strawberry.field(description="Why it is not schedulable, in the operator's words.")
    capacity: list[SlotAmount] = strawberry.field(description="Total capacity, by slot.")
    occupied: list[SlotAmount] = strawberry.field(
        description="Held capacity, by slot; includes what other agents that share its devices have granted."
    )
    devices: list[Device] = strawberry.field(description="Its devices, in natural order.")
    kernels: list[Kernel] = strawberry.field(description="The kernels that hold devices here.")
    gpu_alloc_map: str = strawberry.field(
        description="JSON text: an object that maps each accelerator's id to the shares held, with at least two "
        "decimal places; 0.00 for idle ones. It shows the state of the devices: agents that share a device show the "
        "same amount, whichever of them granted it."
    )
    allocation_mode: AllocationMode = strawberry.field(description="How its node's devices are divided among agents.")
    scaling_factors: list[SlotAmount] = strawberry.field(description="Its part of the node by slot: 0.4 is 2 of 5.")
    attributes: list[NameValue] = strawberry.field(description="Attributes from its accelerator configuration file.")
    capabilities: Capabilities = strawberry.field(description="Its detected capabilities.")
    software_version: str = strawberry.field(description="Version of the agent's software.")
    registered_at: datetime = strawberry.field(description="When it first registered.")
    state_changed_at: datetime = strawberry.field(description="When its state last changed.")
