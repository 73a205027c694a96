"""Agents.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.amounts import NameValue, SlotAmount
from aliquot.client.generated.devices import Device
from aliquot.client.generated.enums import AgentState, AllocationMode, DeviceAccess
from aliquot.client.generated.kernels import Kernel


class Enforcement(Struct, frozen=True, kw_only=True):
    """
    What holds kernels to each limit: cgroup_v2, cgroup_v1, rlimit, shim (the process that owns a kernel), or none.
    """

    memory: str
    """Of `mem`, each process by itself where it is rlimit."""
    processes: str
    """Where it is rlimit, only sessions that ask for a number are held to it, with all processes of their account."""
    cpu: str
    """CPU time, as much as was granted."""
    open_files: str
    """Of each process."""
    file_size: str
    """Of the longest file, where the operator set one."""
    wall_time: str
    """Of `time_limit`."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an agent can really do on its node; reported, never pretended."""

    kill: str
    """How a process tree is ended: cgroup_v2, cgroup_v1 or subreaper."""
    limits: str
    """How memory is limited: cgroup_v2, cgroup_v1 or rlimits."""
    switches_user: bool
    """Whether jobs can run as another Unix account."""
    device_access: DeviceAccess
    """What keeps jobs away from devices not their own."""
    enforced: Enforcement
    """What holds kernels to their limits."""
    sandbox: str
    """The sandbox profile that works there: standard, or none."""
    sandbox_mode: str
    """Which kernels are put into it: required, when-possible, when-asked or off."""
    sandbox_note: str
    """Why there is no sandbox; empty where there is one."""


class Agent(Struct, frozen=True, kw_only=True):
    """An agent: the process that owns devices of a node, and what runs there."""

    id: str
    """Unique in the cluster."""
    version: int
    """Counts its changes."""
    node_id: str
    """The host; several agents of one host share it."""
    hostname: str
    """The host's name."""
    state: AgentState
    """How the server sees it."""
    schedulable: bool
    """Whether it is given new work."""
    pool: str
    """The part of the cluster that it is in."""
    labels: tuple[NameValue, ...]
    """What operators say about it, for sessions to ask for."""
    draining: bool
    """Nothing new is put on it; what runs there ends by itself."""
    drained: bool
    """It is draining, and nobody holds anything of it any more."""
    note: str | None
    """Why, in an operator's words."""
    capacity: tuple[SlotAmount, ...]
    """Everything it has, by slot."""
    occupied: tuple[SlotAmount, ...]
    """What of it is held, by slot."""
    devices: tuple[Device, ...]
    """Its devices, in natural order."""
    kernels: tuple[Kernel, ...]
    """The kernels that hold devices here."""
    gpu_alloc_map: str
    """
    JSON text: an object of device id to the shares held, with at least two places; every accelerator is a key, idle
    ones at 0.00.
    """
    allocation_mode: AllocationMode
    """How its node is divided among agents."""
    scaling_factors: tuple[SlotAmount, ...]
    """Its part of the node, by slot: 0.4 is 2 of 5."""
    attributes: tuple[NameValue, ...]
    """What its accelerators' file says about itself."""
    capabilities: Capabilities
    """What it can do on its node."""
    software_version: str
    """The version of the agent's program."""
    registered_at: datetime
    """When it was first seen."""
    state_changed_at: datetime
    """When its state changed last."""
