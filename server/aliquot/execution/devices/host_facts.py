"""What the kernel says about this machine's CPUs and memory."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aliquot.execution.devices.cgroup_limits import cgroup_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The part of the machine that this process may use."""

    cpus: tuple[int, ...]
    """Numbers of logical CPUs, ascending. At least one."""
    numa_nodes: Mapping[int, int]
    """CPU number -> NUMA node, where it is known."""
    cpu_model: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """How busy the machine is. Ticks count up from boot."""

    busy_ticks: Mapping[int, int]
    total_ticks: Mapping[int, int]
    memory_total_bytes: int
    memory_used_bytes: int


def host_facts(root: Path = Path("/"), *, affinity: frozenset[int] | None = None) -> HostFacts:
    """Look at the machine.

    The CPU affinity (which a cpuset narrows) says which CPUs there are; a CPU quota of a cgroup says how many of them
    may be counted on, rounded down, at least one; a memory limit of a cgroup counts like less memory.

    Args:
        root: where `/proc` and `/sys` are found.
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
    """Read the kernel's list format: `0-3,8` -> 0, 1, 2, 3, 8."""
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
