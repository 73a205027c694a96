"""Devices: accelerators, cores and memory of an agent, their readings, and the validation of both."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.slots import SLOT_NAME, is_size

DEVICES_MAX: Final = 8192
"""Devices per agent, including CPU cores and memory pools."""
MEMORY_BYTES_MAX: Final = 2**50
"""1 PiB: memory of one device, and of one agent in total, so that sums over a cluster fit into 64 bits."""
MILLI_BUDGET_MAX: Final = 100_000
"""Budget of an accelerator in milli: a hundred times a whole device."""
CORES_MAX: Final = 1024
"""Cores of one device of kind `cpu`."""
NUMA_NODE_MAX: Final = 1023
"""Limit of the Linux kernel."""
PROCESSORS_MAX: Final = 1_000_000
DEVICE_SLOTS_MAX: Final = 16
"""Slots that one device offers."""
LINKS_MAX: Final = 256
"""Devices that one device is linked to."""
PROCESSES_MAX: Final = 10_000
"""Of one device, in one reading."""
DEVICE_ID_CHARS_MAX: Final = 255
NAME_CHARS_MAX: Final = 255

_ID_PART: Final = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._:+@#-]+"
_DEVICE_ID: Final = re.compile(rf"{_ID_PART}(?:/{_ID_PART}){{0,3}}", re.ASCII)
_KIND: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_ESCAPED_CHARS: Final = 60


class DeviceHealth(DescribedStr):
    """Whether a device can be allocated to new sessions."""

    HEALTHY = "healthy", "It can be allocated."
    UNHEALTHY = (
        "unhealthy",
        "Reported broken (uncorrectable ECC, off the bus). Holders keep it; it is not allocated again.",
    )
    GONE = "gone", "No longer reported by its driver. Its holders are preempted."
    LEAVING = (
        "leaving",
        "Removed from its agent's configuration while held. Holders keep it; it is not allocated again, and "
        "it is removed when the last holder ends.",
    )


class Isolation(DescribedStr):
    """Isolation between holders of one device, weakest first."""

    NONE = "none", "None: holders can use more than their share."
    MPS = "mps", "NVIDIA MPS limits the memory and the compute of each holder."
    MIG = "mig", "Each holder has a MIG slice of its own."


class DeviceAccess(DescribedStr):
    """How kernels are kept from devices they were not allocated."""

    ENV = "env", "Advisory: environment variables name the allocated devices."
    CGROUP = "cgroup", "Enforced by the cgroup device controller."


class Device(Struct, frozen=True, kw_only=True):
    """One physical accelerator, MIG slice, CPU core or memory pool.

    All slots of a device share one budget; `costs` is the price of one base unit of each slot. A GPU of capacity 1 has
    a budget of 1000 milli: `cuda.shares` costs 1 per milli, `cuda.device` 1000 per device. A time-sliced GPU with 2
    units has a budget of 2000 and costs 1000 per unit. A CPU core has a budget of 1.
    """

    id: DeviceId
    name: str
    """Kind and index as detected by the plugin: `cuda0`, `cpu3`, `mem0`."""
    kind: str
    """The plugin's kind and the prefix of its slots: `cuda`, `rocm`, `cpu`, `mem`."""
    model: str
    budget: int
    """Capacity in budget units: milli for accelerators, cores for `cpu`, bytes for `mem`. > 0."""
    costs: Mapping[SlotName, int]
    """Budget units per base unit of a slot; each divides the budget."""
    quanta: Mapping[SlotName, int]
    """Allocation step of each slot, in base units; 1 for missing slots."""
    memory_bytes: int
    """The device's own memory; 0 = none."""
    numa_node: int | None = None
    parent: DeviceId | None = None
    """The device that a MIG slice, or an agent's part of a pool, belongs to. Parent and part exclude each other."""
    isolation: Isolation = Isolation.NONE
    health: DeviceHealth = DeviceHealth.HEALTHY
    linked_to: tuple[DeviceId, ...] = ()
    """Devices joined by a fast direct link (NVLink, XGMI)."""
    processors: int = 0
    """Streaming multiprocessors or the like; 0 = unknown."""

    def capacity(self, slot: SlotName) -> int:
        """Capacity in base units of a slot; 0 if the device does not have the slot."""
        cost = self.costs.get(slot)
        return self.budget // cost if cost else 0


class DeviceReading(Struct, frozen=True, kw_only=True):
    """Measurements of one device at one moment. None = not available."""

    device_id: DeviceId
    utilization_pct: float | None = None
    memory_used_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    processes: tuple["DeviceProcess", ...] | None = None
    """None = processes cannot be attributed (other PID namespace, MPS server)."""


class DeviceProcess(Struct, frozen=True, kw_only=True):
    """A process that uses a device, as reported by the driver."""

    pid: int
    memory_bytes: int | None
    user: str | None = None
    """The Unix account that it runs as; None = unknown."""
    is_job: bool | None = None
    """Whether it belongs to a kernel of the agent that measured it; None = unknown."""


ResourceSpec = Mapping[SlotName, Mapping[DeviceId, int]]
"""Allocation of one kernel: `{slot: {device_id: amount}}`, amounts in the slot's base unit, all > 0."""


def device_fault(device: Device) -> str | None:
    """Message about the first invalid field of a device reported by an agent, with its limit; None = valid."""
    fault = (
        id_fault("id", device.id)
        or text_fault("name", device.name)
        or (None if _KIND.fullmatch(device.kind) else f"kind {_escaped(device.kind)} is not a name like 'cuda'")
        or text_fault("model", device.model, least=0)
        or number_fault("budget", device.budget, least=1, most=_budget_max(device))
        or _amounts_fault("costs", device.costs)
        or _amounts_fault("quanta", device.quanta)
        or number_fault("memory_bytes", device.memory_bytes, least=0, most=MEMORY_BYTES_MAX)
        or number_fault("numa_node", device.numa_node, least=0, most=NUMA_NODE_MAX)
        or number_fault("processors", device.processors, least=0, most=PROCESSORS_MAX)
        or _relatives_fault(device)
    )
    return None if fault is None else f"device {_escaped(device.name)}: {fault}"


def reading_fault(reading: DeviceReading) -> str | None:
    """Message about the first invalid value of a reading; None = valid."""
    fault = (
        id_fault("device_id", reading.device_id)
        or number_fault("utilization_pct", reading.utilization_pct, least=0, most=1000)
        or number_fault("memory_used_bytes", reading.memory_used_bytes, least=0, most=MEMORY_BYTES_MAX)
        or number_fault("temperature_c", reading.temperature_c, least=-274, most=1000)
        or number_fault("power_w", reading.power_w, least=0, most=100_000)
        or number_fault("the number of processes", len(reading.processes or ()), least=0, most=PROCESSES_MAX)
    )
    for process in reading.processes or ():
        fault = (
            fault
            or number_fault("pid", process.pid, least=0, most=2**31 - 1)
            or number_fault("memory_bytes of a process", process.memory_bytes, least=0, most=MEMORY_BYTES_MAX)
            or text_fault("user of a process", process.user or "", least=0)
        )
    return None if fault is None else f"reading of {_escaped(reading.device_id)}: {fault}"


def spec_fault(spec: ResourceSpec) -> str | None:
    """Message about the first invalid value of a resource spec reported by an agent; None = valid."""
    fault = number_fault("the number of slots", len(spec), least=0, most=DEVICE_SLOTS_MAX * 4)
    for slot, amounts in spec.items():
        fault = fault or slot_fault(slot) or number_fault("devices", len(amounts), least=0, most=DEVICES_MAX)
        for device_id, amount in amounts.items() if fault is None else ():
            fault = fault or id_fault("id", device_id) or number_fault(slot, amount, least=0, most=MEMORY_BYTES_MAX)
    return fault


def id_fault(field: str, device_id: str) -> str | None:
    """Message if a text is not a device id; None = valid. Ids become parts of paths, variables and database keys."""
    if len(device_id) <= DEVICE_ID_CHARS_MAX and _DEVICE_ID.fullmatch(device_id):
        return None
    return (
        f"{field} {_escaped(device_id)} is not a device id: 1 to {DEVICE_ID_CHARS_MAX} letters, digits and ._:+@#-, "
        "in up to 4 parts separated by /, none of which is . or .."
    )


def slot_fault(slot: str) -> str | None:
    """Message if a text is not a slot name; None = valid."""
    return None if SLOT_NAME.fullmatch(slot) else f"slot {_escaped(slot)} is not a name like 'cuda.device'"


def text_fault(field: str, text: str, *, least: int = 1, most: int = NAME_CHARS_MAX) -> str | None:
    """Message if a text is too short, too long or has unprintable characters; None = valid."""
    if least <= len(text) <= most and (text.isprintable() or not text):
        return None
    return f"{field} {_escaped(text)} has {len(text)} characters; {least} to {most} printable ones are allowed"


def number_fault(field: str, number: float | None, *, least: int, most: int) -> str | None:
    """Message if a number is out of range; None = valid. A number that is None is unknown, and valid."""
    if number is None or least <= number <= most:
        return None
    return f"{field} is {str(number)[:_ESCAPED_CHARS]}; {least:,} to {most:,} is allowed"


def _budget_max(device: Device) -> int:
    """Memory is counted in bytes, CPUs in cores, other devices in milli."""
    if device.kind == "cpu":
        return CORES_MAX
    return MEMORY_BYTES_MAX if any(map(is_size, device.costs)) else MILLI_BUDGET_MAX


def _amounts_fault(field: str, amounts: Mapping[SlotName, int]) -> str | None:
    fault = number_fault(f"the number of {field}", len(amounts), least=0, most=DEVICE_SLOTS_MAX)
    for slot, amount in amounts.items() if fault is None else ():
        fault = fault or slot_fault(slot) or number_fault(f"{field} of {slot}", amount, least=1, most=MEMORY_BYTES_MAX)
    return fault


def _relatives_fault(device: Device) -> str | None:
    fault = None if device.parent is None else id_fault("parent", device.parent)
    if device.parent == device.id:
        return "it is its own parent"
    fault = fault or number_fault("the number of links", len(device.linked_to), least=0, most=LINKS_MAX)
    for other in device.linked_to if fault is None else ():
        fault = fault or id_fault("linked_to", other)
    return fault


def _escaped(text: str) -> str:
    """Escaped and shortened, so that nothing in it affects a terminal or a log."""
    return ascii(text if len(text) <= _ESCAPED_CHARS else f"{text[:_ESCAPED_CHARS]}...")
