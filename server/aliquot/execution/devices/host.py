"""Host plugin: logical CPUs and memory as devices, within the cgroup limits of this process.

Discovery reads CPU affinity, cgroups (version 1 and 2), /proc and /sys; or amounts are declared in the configuration.
"""

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from pydantic import Field

from aliquot.execution.devices.plugin import DeviceFileError, DeviceUse, held
from aliquot.execution.devices.tables import Size, Table
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import MEMORY_BYTES_MAX, NUMA_NODE_MAX, Device, DeviceReading, ResourceSpec
from aliquot_schema.resources.slots import SlotType


class CgroupLimits(Struct, frozen=True, kw_only=True):
    """The tightest limits from the process's own cgroup up to the root; None = no limit."""

    cpus: float | None
    """CPUs, fractional: quota / period."""
    memory_bytes: int | None


def cgroup_limits(root: Path = Path("/")) -> CgroupLimits:
    """Read the limits of cgroup version 1 and 2; a hybrid host has both.

    Args:
        root: parent folder of `/proc` and `/sys`.
    """
    cpus: list[float] = []
    memory: list[int] = []
    for folder in _folders(root):
        cpus.extend(_quota(folder))
        memory.extend(_memory(folder))
    return CgroupLimits(cpus=min(cpus, default=None), memory_bytes=min(memory, default=None))


def _folders(root: Path) -> Iterator[Path]:
    """Folders of this process's cgroup and its parents; not all exist.

    In a container `/proc/self/cgroup` may have the host's path while the container's own group is mounted as the root.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _limit_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = [*controllers.split(","), controllers] if controllers else ["", "unified"]
        for hierarchy in dict.fromkeys(mounted / name for name in names):
            group = hierarchy / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(hierarchy))


def _quota(folder: Path) -> Iterator[float]:
    quota, _, period = _limit_text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _limit_text(folder / "cpu.cfs_quota_us"), _limit_text(folder / "cpu.cfs_period_us")
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        yield int(quota) / int(period)


def _memory(folder: Path) -> Iterator[int]:
    """Memory limits of one folder; version 1 writes a number near 2**63 for no limit."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = _limit_text(folder / name)
        if text.isdecimal() and int(text) < 2**62:
            yield int(text)


def _limit_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class HostFacts(Struct, frozen=True, kw_only=True):
    """The part of the machine that this process may use."""

    cpus: tuple[int, ...]
    """Numbers of logical CPUs, ascending. At least one."""
    numa_nodes: Mapping[int, int]
    """CPU number -> NUMA node, where known."""
    cpu_model: str
    memory_bytes: int


class HostLoad(Struct, frozen=True, kw_only=True):
    """Counters of CPU and memory use. Ticks count from boot, per CPU number."""

    busy_ticks: Mapping[int, int]
    total_ticks: Mapping[int, int]
    memory_total_bytes: int
    memory_used_bytes: int


def host_facts(root: Path = Path("/"), *, affinity: frozenset[int] | None = None) -> HostFacts:
    """Read the CPUs and memory that this process may use.

    CPUs are those of the CPU affinity (which a cpuset narrows), at most the cgroup's CPU quota rounded down, at least
    one. Memory is the smaller of the machine's and the cgroup's limit.

    Args:
        root: parent folder of `/proc` and `/sys`.
        affinity: CPU numbers; None = this process's own.
    """
    limits = cgroup_limits(root)
    cpus = sorted(os.sched_getaffinity(0) if affinity is None else affinity)
    usable = len(cpus) if limits.cpus is None else max(1, min(len(cpus), int(limits.cpus)))
    memory = _meminfo(root).get("MemTotal", 0)
    return HostFacts(
        cpus=tuple(cpus[:usable]),
        numa_nodes=_numa_nodes(root),
        cpu_model=_cpu_model(root),
        memory_bytes=memory if limits.memory_bytes is None else min(memory, limits.memory_bytes),
    )


def host_load(root: Path = Path("/")) -> HostLoad:
    """Read the counters. Columns of `/proc/stat`: proc(5); idle and iowait are the fourth and fifth."""
    busy: dict[int, int] = {}
    total: dict[int, int] = {}
    for number, columns in re.findall(r"^cpu(\d+) (.+)$", _text(root / "proc/stat"), re.MULTILINE):
        ticks = [int(column) for column in columns.split()[:8]]
        total[int(number)] = sum(ticks)
        busy[int(number)] = sum(ticks) - sum(ticks[3:5])
    memory = _meminfo(root)
    size = memory.get("MemTotal", 0)
    used = size - memory.get("MemAvailable", size)
    return HostLoad(busy_ticks=busy, total_ticks=total, memory_total_bytes=size, memory_used_bytes=used)


def cpu_numbers(listed: str) -> tuple[int, ...]:
    """Parse the kernel's list format: `0-3,8` -> 0, 1, 2, 3, 8."""
    numbers: list[int] = []
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)


def _numa_nodes(root: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in sorted((root / "sys/devices/system/node").glob("node[0-9]*")):
        for cpu in cpu_numbers(_text(folder / "cpulist")):
            found[cpu] = int(folder.name.removeprefix("node"))
    return found


def _cpu_model(root: Path) -> str:
    named = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return named[1] if named else platform.machine()


def _meminfo(root: Path) -> dict[str, int]:
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in lines}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
POOL: Final = DeviceId("mem0")


class HostConfig(Table):
    """The `host` table. Declared amounts are offered in full; measured amounts less the reserve for the system."""

    cpu: int | None = Field(default=None, gt=0, le=4096)
    """Declared logical CPUs, numbered from 0."""
    mem: Size | None = Field(default=None, gt=0, le=MEMORY_BYTES_MAX)
    reserved_cpu: int = Field(default=0, ge=0, alias="reserved-cpu")
    """Number of CPUs withheld from jobs, lowest numbers first; interrupts prefer those."""
    reserved_mem: Size = Field(default=512 * 1024**2, ge=0, alias="reserved-mem")
    numa_nodes: int = Field(default=1, gt=0, le=NUMA_NODE_MAX + 1, alias="numa-nodes")
    """Number of NUMA nodes that declared CPUs are spread over, in equal consecutive ranges."""


class HostPlugin:
    """One device `cpu<n>` per logical CPU, and one memory pool `mem0`.

    Memory is one pool for all NUMA nodes: a job's memory is not bound to a node, so pools per node would reject or
    split large requests without need.
    """

    kind = "host"

    def __init__(self, config: Mapping[str, object] | None = None, *, root: Path = Path("/")) -> None:
        """Read the `host` table; `root` is the parent folder of `/proc` and `/sys`.

        Raises:
            DeviceFileError: the table is invalid.
        """
        self._config = HostConfig.checked(config or {}, source="host")
        self._root = root
        self._devices: tuple[Device, ...] = ()
        self._load: HostLoad | None = None

    def discover(self) -> tuple[Device, ...]:
        """Read the machine again: affinity and limits may have changed.

        Raises:
            DeviceFileError: the reserve leaves no CPU or no memory.
        """
        config = self._config
        facts = host_facts(self._root)
        cpus = _declared(config) if config.cpu else _measured(config, facts)
        model = "declared" if config.cpu else facts.cpu_model
        self._devices = (*_cpus(cpus, model=model), _pool(config.mem or _unreserved(config, facts)))
        return self._devices

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """`cpu` counts logical CPUs, `mem` bytes."""
        return {CPU: SlotType.COUNT, MEM: SlotType.BYTES}

    def attributes(self) -> Mapping[str, str]:
        """None."""
        return {}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:  # noqa: ARG002 - the kernel knows better
        """CPU load since the previous call (from the second call on), and memory in use; only of measured devices."""
        before, self._load = self._load, host_load(self._root)
        found: list[DeviceReading] = []
        if not self._config.cpu and before is not None:
            found.extend(_cpu_readings(self._devices, before=before, now=self._load))
        if not self._config.mem and self._load.memory_total_bytes:
            used = self._load.memory_used_bytes
            percent = round(100 * used / self._load.memory_total_bytes, 1)
            found.append(DeviceReading(device_id=POOL, utilization_pct=percent, memory_used_bytes=used))
        return tuple(found)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """Numbers of the granted CPUs, and the granted memory in bytes.

        OMP_NUM_THREADS and the like are not set: a plugin's variables would override the user's.
        """
        numbers = (id.removeprefix("cpu") for id in held({CPU: spec.get(CPU, {})}, self._devices))
        memory = sum(spec.get(MEM, {}).values())
        return {"ALIQUOT_CPUS": ",".join(numbers), "ALIQUOT_MEMORY_BYTES": str(memory)}

    def close(self) -> None:
        """Nothing to release."""


def _declared(config: HostConfig) -> dict[int, int | None]:
    count = config.cpu or 0
    return {number: number * config.numa_nodes // count for number in range(count)}


def _measured(config: HostConfig, facts: HostFacts) -> dict[int, int | None]:
    usable = facts.cpus[config.reserved_cpu :]
    if not usable:
        raise DeviceFileError(f"host: reserved-cpu {config.reserved_cpu} leaves none of {len(facts.cpus)} CPUs")
    return {number: facts.numa_nodes.get(number) for number in usable}


def _unreserved(config: HostConfig, facts: HostFacts) -> int:
    memory = facts.memory_bytes - config.reserved_mem
    if memory <= 0:
        raise DeviceFileError(f"host: reserved-mem {config.reserved_mem} leaves nothing of {facts.memory_bytes} bytes")
    return memory


def _cpus(numa_nodes: Mapping[int, int | None], *, model: str) -> tuple[Device, ...]:
    return tuple(
        Device(
            id=DeviceId(f"cpu{number}"),
            name=f"cpu{number}",
            kind="cpu",
            model=model,
            budget=1,
            costs={CPU: 1},
            quanta={},
            memory_bytes=0,
            numa_node=node,
        )
        for number, node in numa_nodes.items()
    )


def _pool(memory: int) -> Device:
    return Device(
        id=POOL, name="mem0", kind="mem", model="memory", budget=memory, costs={MEM: 1}, quanta={}, memory_bytes=memory
    )


def _cpu_readings(devices: Sequence[Device], *, before: HostLoad, now: HostLoad) -> list[DeviceReading]:
    found: list[DeviceReading] = []
    for device in devices:
        number = int(device.id.removeprefix("cpu")) if device.kind == "cpu" else -1
        passed = now.total_ticks.get(number, 0) - before.total_ticks.get(number, 0)
        if passed > 0:
            busy = now.busy_ticks[number] - before.busy_ticks.get(number, 0)
            percent = round(100 * min(max(busy / passed, 0.0), 1.0), 1)
            found.append(DeviceReading(device_id=device.id, utilization_pct=percent))
    return found
