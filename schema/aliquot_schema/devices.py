"""Devices: what an agent owns and hands out, and what it says about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from aliquot_schema.ids import DeviceId, SlotName


class DeviceHealth(StrEnum):
    """Whether a device may be given to somebody new."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    """Reported broken (uncorrectable ECC, lost from the bus); whoever holds it keeps it, nobody new gets it."""
    GONE = "gone"
    """No longer reported by the agent's plugins."""


class Isolation(StrEnum):
    """What keeps two holders of one device apart. Ordered: each promises more than the one before."""

    NONE = "none"
    MPS = "mps"
    MIG = "mig"


class DeviceAccess(StrEnum):
    """What keeps a kernel of an agent away from devices that it was not given."""

    ENV = "env"
    """Advisory: environment variables name the devices."""
    CGROUP = "cgroup"
    """Enforced by the kernel's device controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One physical accelerator, MIG slice, CPU core or memory pool.

    All slots of a device draw on one budget: `costs` says how much of it one base unit of each slot takes. A GPU of
    capacity 1 has a budget of 1000 milli; `cuda.shares` costs 1 a milli, `cuda.device` costs 1000 a device. A
    time-sliced GPU with 2 units and a budget of 2000 still costs 1000 a unit. A CPU core has a budget of 1.
    """

    id: DeviceId
    name: str
    """Kind and index as the plugin found it: `cuda0`, `cpu3`, `mem0`."""
    kind: str
    """The plugin's kind: `cuda`, `rocm`, `cpu`, `mem`; the prefix of its slots."""
    model: str
    budget: int
    """Whole capacity, in budget units: milli for accelerators, cores for `cpu`, bytes for `mem`. > 0."""
    costs: Mapping[SlotName, int]
    """Budget units that one base unit of a slot takes; each divides the budget."""
    quanta: Mapping[SlotName, int]
    """The step of each slot, in base units; a slot that is missing has a step of 1."""
    memory_bytes: int
    """The device's own memory; 0 where it has none."""
    numa_node: int | None = None
    parent: DeviceId | None = None
    """The whole device that a MIG slice, or one agent's piece of a pool, is cut from; the two exclude each other."""
    isolation: Isolation = Isolation.NONE
    health: DeviceHealth = DeviceHealth.HEALTHY
    linked_to: tuple[DeviceId, ...] = ()
    """Devices joined by a fast direct link (NVLink, XGMI)."""
    processors: int = 0
    """Streaming multiprocessors or the like; 0 = unknown."""

    def capacity(self, slot: SlotName) -> int:
        """How much of a slot the whole device holds, in base units; 0 when it has no such slot."""
        cost = self.costs.get(slot)
        return self.budget // cost if cost else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """What a device measured at one moment. None = this device cannot say."""

    device_id: DeviceId
    utilization_pct: float | None = None
    memory_used_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    processes: tuple["DeviceProcess", ...] | None = None
    """None = processes cannot be attributed here (other pid namespace, MPS server)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """A process that uses a device, as the driver sees it."""

    pid: int
    memory_bytes: int | None


ResourceSpec = Mapping[SlotName, Mapping[DeviceId, int]]
"""What one kernel was given: `{slot: {device_id: amount}}`, amounts in the slot's base unit, all > 0."""
