"""Agents: their devices, what runs on them, and what they can do."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.amounts import NameValue, SlotAmount
from aliquot_schema.graphql.devices import Device
from aliquot_schema.graphql.enums import AgentState, AllocationMode, DeviceAccess
from aliquot_schema.graphql.kernels import Kernel


@strawberry.type(
    description="What holds kernels to each limit: cgroup_v2, cgroup_v1, rlimit, shim (the process that owns a "
    "kernel), or none."
)
class Enforcement:
    memory: str = strawberry.field(description="Of `mem`, each process by itself where it is rlimit.")
    processes: str = strawberry.field(
        description="Where it is rlimit, only sessions that ask for a number are held to it, with all processes of "
        "their account."
    )
    cpu: str = strawberry.field(description="CPU time, as much as was granted.")
    open_files: str = strawberry.field(description="Of each process.")
    file_size: str = strawberry.field(description="Of the longest file, where the operator set one.")
    wall_time: str = strawberry.field(description="Of `time_limit`.")


@strawberry.type(description="What an agent can really do on its node; reported, never pretended.")
class Capabilities:
    kill: str = strawberry.field(description="How a process tree is ended: cgroup_v2, cgroup_v1 or subreaper.")
    limits: str = strawberry.field(description="How memory is limited: cgroup_v2, cgroup_v1 or rlimits.")
    switches_user: bool = strawberry.field(description="Whether jobs can run as another Unix account.")
    device_access: DeviceAccess = strawberry.field(description="What keeps jobs away from devices not their own.")
    enforced: Enforcement = strawberry.field(description="What holds kernels to their limits.")
    sandbox: str = strawberry.field(description="The sandbox profile that works there: standard, or none.")
    sandbox_mode: str = strawberry.field(
        description="Which kernels are put into it: required, when-possible, when-asked or off."
    )
    sandbox_note: str = strawberry.field(description="Why there is no sandbox; empty where there is one.")


@strawberry.type(description="An agent: the process that owns devices of a node, and what runs there.")
class Agent:
    id: strawberry.ID = strawberry.field(description="Unique in the cluster.")
    version: int = strawberry.field(description="Counts its changes.")
    node_id: str = strawberry.field(description="The host; several agents of one host share it.")
    hostname: str = strawberry.field(description="The host's name.")
    state: AgentState = strawberry.field(description="How the server sees it.")
    schedulable: bool = strawberry.field(description="Whether it is given new work.")
    pool: str = strawberry.field(description="The part of the cluster that it is in.")
    labels: list[NameValue] = strawberry.field(description="What operators say about it, for sessions to ask for.")
    draining: bool = strawberry.field(description="Nothing new is put on it; what runs there ends by itself.")
    drained: bool = strawberry.field(description="It is draining, and nobody holds anything of it any more.")
    note: str | None = strawberry.field(description="Why, in an operator's words.")
    capacity: list[SlotAmount] = strawberry.field(description="Everything it has, by slot.")
    occupied: list[SlotAmount] = strawberry.field(description="What of it is held, by slot.")
    devices: list[Device] = strawberry.field(description="Its devices, in natural order.")
    kernels: list[Kernel] = strawberry.field(description="The kernels that hold devices here.")
    gpu_alloc_map: str = strawberry.field(
        description="JSON text: an object of device id to the shares held, with at least two places; "
        "every accelerator is a key, idle ones at 0.00."
    )
    allocation_mode: AllocationMode = strawberry.field(description="How its node is divided among agents.")
    scaling_factors: list[SlotAmount] = strawberry.field(description="Its part of the node, by slot: 0.4 is 2 of 5.")
    attributes: list[NameValue] = strawberry.field(description="What its accelerators' file says about itself.")
    capabilities: Capabilities = strawberry.field(description="What it can do on its node.")
    software_version: str = strawberry.field(description="The version of the agent's program.")
    registered_at: datetime = strawberry.field(description="When it was first seen.")
    state_changed_at: datetime = strawberry.field(description="When its state changed last.")
