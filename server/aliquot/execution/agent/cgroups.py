"""Cgroups: version 2 groups of kernels, used to kill all processes of a kernel together, to measure their
CPU time and memory, and to close devices to them."""

import hashlib
import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from aliquot.execution.agent.spawner.device_gate import close_devices

_MOUNTS: Final = Path("/proc/self/mountinfo")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_PARENT: Final = "aliquot"
_UNRECLAIMABLE: Final = ("anon", "shmem")


class Groups(Struct, frozen=True):
    """Location of the groups of an agent's kernels."""

    parent: Path
    prefix: str
    """Distinguishes the agents of one host."""

    def of_kernel(self, kernel_id: str) -> str:
        """The group's folder; the kernel's shim creates and removes it."""
        return str(self.parent / f"{self.prefix}.{kernel_id}")


def find_groups(agent_folder: Path) -> Groups | None:
    """Find the parent group by creating a probe group; None if groups cannot be created and killed here."""
    own = _own_group()
    if own is None:
        return None
    parent = own / _PARENT
    probe = parent / f"probe-{os.getpid()}"
    try:
        parent.mkdir(exist_ok=True)
        probe.mkdir(exist_ok=True)
        # To move a process, the common ancestor of both groups must be writable too.
        usable = (probe / "cgroup.kill").exists() and os.access(own / "cgroup.procs", os.W_OK)
        # Below a threaded domain the type is "domain invalid", and no process can join.
        usable = usable and (probe / "cgroup.type").read_text(encoding="ascii") == "domain\n"
        probe.rmdir()
    except OSError:
        return None
    prefix = hashlib.sha256(os.fsencode(agent_folder)).hexdigest()[:8]
    return Groups(parent, prefix) if usable else None


def members(group: str) -> list[int]:
    """Pids of the processes in a group; empty if it does not exist."""
    try:
        return [int(pid) for pid in Path(group, "cgroup.procs").read_text(encoding="ascii").split()]
    except OSError:
        return []


def kill_group(group: str) -> None:
    """Kill every process in a group."""
    try:
        Path(group, "cgroup.kill").write_text("1", encoding="ascii")
    except OSError:
        return


def remove_group(group: str) -> None:
    """Remove a group without processes; no effect if it is in use or does not exist."""
    try:
        os.rmdir(group)
    except OSError:
        return


def cpu_s(group: str) -> float | None:
    """CPU time used by a group, seconds; None if it does not exist."""
    try:
        first = Path(group, "cpu.stat").read_text(encoding="ascii").split(maxsplit=2)
    except OSError:
        return None
    return int(first[1]) / 1e6


def memory_bytes(group: str) -> int | None:
    """Anonymous and shared memory of a group, without file pages; None without the group or its memory controller."""
    try:
        text = Path(group, "memory.stat").read_text(encoding="ascii")
    except OSError:
        return None
    sizes = (line.split() for line in text.splitlines())
    return sum(int(size) for name, size in sizes if name in _UNRECLAIMABLE)


def _own_group() -> Path | None:
    mount = _mount_point()
    for line in _MEMBERSHIP.read_text(encoding="utf-8").splitlines():
        if mount is not None and line.startswith("0::"):
            return mount / line.removeprefix("0::").lstrip("/")
    return None


def _mount_point() -> Path | None:
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return None


def can_gate(groups: Groups | None) -> bool:
    """Whether this host supports device gates, tried on an empty cgroup."""
    if groups is None:
        return False
    probe = groups.of_kernel(f"gate-{os.getpid()}")
    try:
        os.mkdir(probe)
        try:
            close_devices(probe, [])
        finally:
            os.rmdir(probe)
    except OSError:
        return False
    return True
