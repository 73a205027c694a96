"""Cgroups that hold kernels to limits, of version 2 where its controllers can be had, else of version 1."""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aliquot.execution.agent.cgroups import Groups

_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_FILES: Final = {"pids": ("pids.max", "pids.max"), "cpu": ("cpu.max", "cpu.cfs_quota_us")}
"""By controller: the file of version 2, and that of version 1."""
_PARENT: Final = "aliquot"
PERIOD_US: Final = 100_000

LimitGroup = tuple[str, list[tuple[str, str]]]
"""(folder, (file, text) to write into it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitGroups:
    """Where the groups of an agent's kernels are, by controller; one that is missing cannot be had."""

    prefix: str = ""
    unified: Path | None = None
    """Of version 2: the group that holds the kernels' own, which their shims make anyway."""
    version_2: frozenset[str] = frozenset()
    version_1: dict[str, Path] = field(default_factory=dict)
    quota_us_max: int | None = None
    """What groups above those of version 1 allow, see `quota_above`."""

    def by(self, controller: str) -> str:
        """In the words of the protocol."""
        if controller in self.version_2:
            return "cgroup_v2"
        return "cgroup_v1" if controller in self.version_1 else "none"

    def wanted(self, kernel_id: str, *, processes: int, cpus: int) -> list[LimitGroup]:
        """What a kernel's shim has to make and write. 0 = no such limit."""
        quota_us = cpus * PERIOD_US
        if "cpu" not in self.version_2 and self.quota_us_max is not None:
            quota_us = min(quota_us, self.quota_us_max)  # version 1 refuses more than its parents have
        texts = {"pids": str(processes) if processes else "", "cpu": str(quota_us) if cpus else ""}
        found: list[LimitGroup] = []
        for controller, text in texts.items():
            name = f"{self.prefix}.{kernel_id}"
            new, old = _FILES[controller]
            if not text:
                continue
            if controller in self.version_2 and self.unified is not None:
                found.append((str(self.unified / name), [(new, f"{text} {PERIOD_US}" if new == "cpu.max" else text)]))
            elif controller in self.version_1:
                found.append((str(self.version_1[controller] / name), [(old, text)]))
        return found

    def remove(self, kernel_id: str) -> None:
        """Remove what a killed shim left of version 1; what is in use stays."""
        for parent in self.version_1.values():
            try:
                os.rmdir(parent / f"{self.prefix}.{kernel_id}")
            except OSError:
                continue


def find_limit_groups(groups: Groups | None, *, folder: Path) -> LimitGroups:
    """Find out, by trying, which controllers can be had here.

    Args:
        groups: where the kernels' own groups of version 2 are.
        folder: the agent's; keeps the agents of one host apart.
    """
    prefix = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8] if groups is None else groups.prefix
    version_2 = frozenset(name for name in _FILES if groups is not None and _delegated(groups, name))
    version_1 = {name: parent for name in _FILES if name not in version_2 and (parent := _version_1(name)) is not None}
    unified = None if groups is None else groups.parent
    return LimitGroups(
        prefix=prefix,
        unified=unified,
        version_2=version_2,
        version_1=version_1,
        quota_us_max=quota_above(version_1["cpu"]) if "cpu" in version_1 else None,
    )


def quota_above(group: Path) -> int | None:
    """The CPU time that a group of version 1 and those above it allow at most, in each `PERIOD_US`; None = any."""
    found: list[int] = []
    for place in (group, *group.parents):
        try:
            quota_us = int((place / "cpu.cfs_quota_us").read_text(encoding="ascii"))
            period_us = int((place / "cpu.cfs_period_us").read_text(encoding="ascii"))
        except OSError:
            break
        if quota_us > 0:
            found.append(quota_us * PERIOD_US // period_us)
    return min(found, default=None)


def _delegated(groups: Groups, controller: str) -> bool:
    """Whether groups below the parent have a controller of version 2."""
    for folder in (groups.parent.parent, groups.parent):
        try:
            if not _passes_on(folder):
                return False
            (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
        except OSError:
            return False
    return _works(groups.parent, _FILES[controller][0])


def _passes_on(group: Path) -> bool:
    """Whether controllers may be handed down from a group: not where it has processes itself, as a service's has.

    Told to, it would become a threaded domain, and no process could join the groups below it any more. The root is
    exempt, which alone has no type. See "Threads" in the kernel's cgroup-v2 document.
    """
    is_root = not (group / "cgroup.type").exists()
    return is_root or not (group / "cgroup.procs").read_text(encoding="ascii")


def _version_1(controller: str) -> Path | None:
    mount = _mount_of(controller)
    for line in _MEMBERSHIP.read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        if mount is not None and controller in names.split(","):
            parent = mount / path.lstrip("/") / _PARENT
            try:
                parent.mkdir(exist_ok=True)
            except OSError:
                return None
            return parent if _works(parent, _FILES[controller][1]) else None
    return None


def _works(parent: Path, file: str) -> bool:
    probe = parent / f"probe-{os.getpid()}"
    try:
        probe.mkdir(exist_ok=True)
        usable = os.access(probe / file, os.W_OK)
        probe.rmdir()
    except OSError:
        return False
    return usable


def _mount_of(controller: str) -> Path | None:
    for line in _MOUNTS.read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind == "cgroup" and controller in options.split(" ")[-1].split(","):
            return Path(before.split()[4])
    return None
