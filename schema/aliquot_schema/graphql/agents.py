"""Agents: their devices, what runs on them, and what they can do."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.amounts import NameValue, SlotAmount
from aliquot_schema.graphql.devices import Device
from aliquot_schema.graphql.enums import AgentState, AllocationMode, DeviceAccess
from aliquot_schema.graphql.kernels import Kernel


@strawberry.type(description="What an agent can really do on its node; reported, never pretended.")
class Capabilities:
    kill: str = strawberry.field(description="How a process tree is ended: cgroup_v2, cgroup_v1 or subreaper.")
    limits: str = strawberry.field(description="How memory is limited: cgroup_v2, cgroup_v1 or rlimits.")
    switches_user: bool = strawberry.field(description="Whether jobs can run as another Unix account.")
    device_access: DeviceAccess = strawberry.field(description="What keeps jobs away from devices not their own.")


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
