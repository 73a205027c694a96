"""What cgroups this process may use. Only version 2 is used, and only to end a kernel's processes at once."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_PARENT: Final = "aliquot"


@dataclass(frozen=True, slots=True)
class Groups:
    """Where the groups of an agent's kernels are made."""

    parent: Path
    prefix: str
    """Keeps the agents of one host apart."""

    def of_kernel(self, kernel_id: str) -> str:
        """The group's folder; the kernel's shim makes and removes it."""
        return str(self.parent / f"{self.prefix}.{kernel_id}")


def find_groups(agent_folder: Path) -> Groups | None:
    """Find out, by trying, whether groups can be made and killed here; None when not."""
    own = _own_group()
    if own is None:
        return None
    parent = own / _PARENT
    probe = parent / f"probe-{os.getpid()}"
    try:
        parent.mkdir(exist_ok=True)
        probe.mkdir(exist_ok=True)
        # To move a process, the group above both of its groups must be writable too.
        usable = (probe / "cgroup.kill").exists() and os.access(own / "cgroup.procs", os.W_OK)
        # Below a threaded domain it is "domain invalid", and nobody can join it.
        usable = usable and (probe / "cgroup.type").read_text(encoding="ascii") == "domain\n"
        probe.rmdir()
    except OSError:
        return None
    prefix = hashlib.sha256(os.fsencode(agent_folder)).hexdigest()[:8]
    return Groups(parent, prefix) if usable else None


def members(group: str) -> list[int]:
    """The processes in a group; none when it does not exist."""
    try:
        return [int(pid) for pid in Path(group, "cgroup.procs").read_text(encoding="ascii").split()]
    except OSError:
        return []


def kill_group(group: str) -> None:
    """Kill every process in a group at once."""
    try:
        Path(group, "cgroup.kill").write_text("1", encoding="ascii")
    except OSError:
        return


def remove_group(group: str) -> None:
    """Remove a group that has no processes left; one that is in use or gone is left alone."""
    try:
        os.rmdir(group)
    except OSError:
        return


def cpu_s(group: str) -> float | None:
    """CPU time that a group has used, seconds; None when it does not exist."""
    try:
        first = Path(group, "cpu.stat").read_text(encoding="ascii").split(maxsplit=2)
    except OSError:
        return None
    return int(first[1]) / 1e6


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
