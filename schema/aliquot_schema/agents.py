"""Agents: the processes that own devices of a node and run kernels there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from aliquot_schema.confinement import UNKNOWN_ENFORCEMENT, Enforcement
from aliquot_schema.devices import Device, DeviceAccess
from aliquot_schema.ids import AgentId, NodeId, PoolId, SlotName
from aliquot_schema.sessions import DEFAULT_POOL
from aliquot_schema.slots import SlotType
from aliquot_schema.states import AgentState


class AllocationMode(StrEnum):
    """How a node's devices are divided among its agents."""

    SHARED = "shared"
    AUTO_SPLIT = "auto-split"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an agent can really do on its node; reported, never pretended."""

    kill: str = "subreaper"
    """How a process tree is ended: `cgroup_v2`, `cgroup_v1` or `subreaper`."""
    limits: str = "rlimits"
    """How memory and processes are limited: `cgroup_v2`, `cgroup_v1` or `rlimits`."""
    switches_user: bool = False
    device_access: DeviceAccess = DeviceAccess.ENV
    address: str = ""
    """Where kernels of other agents reach a kernel of this one; empty = nobody knows."""
    port_first: int = 29_500
    """The ports that gangs meet at here, up to `port_last`: below those that the system gives to anybody."""
    port_last: int = 30_499
    enforced: Enforcement = UNKNOWN_ENFORCEMENT
    """What holds kernels to each limit."""
    sandbox: str = "none"
    """The profile that kernels can be put into: `standard`, or `none`."""
    sandbox_mode: str = "off"
    """Which kernels are: `required`, `when-possible`, `when-asked` or `off`."""
    sandbox_note: str = ""
    """Why there is no sandbox; empty where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent as the store holds it. Its present use is not here: that is the sum of its leases."""

    id: AgentId
    version: int
    node_id: NodeId
    hostname: str
    state: AgentState = AgentState.ALIVE
    schedulable: bool = True
    devices: tuple[Device, ...] = ()
    """In natural order of their names."""
    slot_types: Mapping[SlotName, SlotType] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What the accelerators' file says about itself."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    allocation_mode: AllocationMode = AllocationMode.SHARED
    scaling_factor: Mapping[SlotName, str] = field(default_factory=dict)
    """The part of the node's capacity that is this agent's, per slot, as decimal text."""
    boot_id: str = ""
    software_version: str = ""
    registered_us: int
    state_changed_us: int
    pool: PoolId = DEFAULT_POOL
    labels: Mapping[str, str] = field(default_factory=dict)
    """What an operator says about it, for sessions to ask for."""
    draining: bool = False
    """Drained: nothing new is put on it, and what runs there ends by itself or is asked to make room."""
    note: str | None = None
    """Why it is not schedulable, in an operator's words."""

    @property
    def takes_work(self) -> bool:
        """Whether an operator lets it have something new."""
        return self.schedulable and not self.draining


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSlot:
    """A slot that some agent once reported. The set only grows; an admin may retire one."""

    id: SlotName
    version: int
    type: SlotType
    first_seen_us: int
    retired: bool = False
