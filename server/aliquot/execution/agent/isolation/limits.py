"""Limits: rlimits and cgroup limits of a kernel, from its resource spec, its session's request and the node's rules.

Cgroups are of version 2 where the controllers are delegated, else of version 1.
"""

import hashlib
import os
import resource
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from aliquot.execution.agent.cgroups import Groups
from aliquot.execution.agent.isolation.settings import ConfinementRules
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.ids import SlotName
from aliquot_schema.resources.confinement import Enforcement

_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_FILES: Final = {"pids": ("pids.max", "pids.max"), "cpu": ("cpu.max", "cpu.cfs_quota_us")}
"""Controller -> (file of version 2, file of version 1)."""
_PARENT: Final = "aliquot"
PERIOD_US: Final = 100_000

LimitGroup = tuple[str, list[tuple[str, str]]]
"""(folder to create, [(file in it, text to write)])."""


class LimitGroups(Struct, frozen=True, kw_only=True):
    """Parent groups of an agent's kernels, by controller; controllers that are not usable here are missing."""

    prefix: str = ""
    unified: Path | None = None
    """Version 2: the parent of the kernels' groups, which their shims create anyway."""
    version_2: frozenset[str] = frozenset()
    """Controllers of version 2."""
    version_1: dict[str, Path] = field(default_factory=dict)
    """Controllers of version 1, with the parent group of each."""
    quota_us_max: int | None = None
    """CPU quota of the groups above those of version 1, see `quota_above`."""

    def by(self, controller: str) -> str:
        """Enforcement of a controller as reported to the server: `cgroup_v2`, `cgroup_v1` or `none`."""
        if controller in self.version_2:
            return "cgroup_v2"
        return "cgroup_v1" if controller in self.version_1 else "none"

    def wanted(self, kernel_id: str, *, processes: int, cpus: int) -> list[LimitGroup]:
        """Groups and limits that a kernel's shim has to create. 0 = unlimited."""
        quota_us = cpus * PERIOD_US
        if "cpu" not in self.version_2 and self.quota_us_max is not None:
            quota_us = min(quota_us, self.quota_us_max)  # version 1 rejects a quota above the parents'
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
        """Remove version 1 groups that a killed shim left behind; groups in use stay."""
        for parent in self.version_1.values():
            try:
                os.rmdir(parent / f"{self.prefix}.{kernel_id}")
            except OSError:
                continue


def find_limit_groups(groups: Groups | None, *, folder: Path) -> LimitGroups:
    """Find the usable controllers by creating probe groups.

    Args:
        groups: location of the kernels' version 2 groups.
        folder: the agent's folder; distinguishes the agents of one host.
    """
    prefix = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8] if groups is None else groups.prefix
    version_2 = frozenset(name for name in _FILES if groups is not None and _delegated(groups, name))
    version_1 = {name: parent for name in _FILES if name not in version_2 and (parent := _version_1(name)) is not None}
    unified = None if groups is None else groups.parent
    if groups is not None:
        _delegated(groups, "memory")  # only measured, see `host_use`
    return LimitGroups(
        prefix=prefix,
        unified=unified,
        version_2=version_2,
        version_1=version_1,
        quota_us_max=quota_above(version_1["cpu"]) if "cpu" in version_1 else None,
    )


def quota_above(group: Path) -> int | None:
    """CPU time per `PERIOD_US` that a version 1 group and its parents allow; None = unlimited."""
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
    """Whether a version 2 controller can be enabled for the groups below the parent."""
    for folder in (groups.parent.parent, groups.parent):
        try:
            if not _can_delegate(folder):
                return False
            (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
        except OSError:
            return False
    return _works(groups.parent, f"{controller}.max")


def _can_delegate(group: Path) -> bool:
    """Whether controllers may be enabled below a group: not if it has processes itself, like a systemd service's.

    It would become a threaded domain, and no process could join the groups below it. The root group, the only one
    without a type, is exempt. Source: "Threads" in the kernel's cgroup-v2 document.
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


_CPU: Final = SlotName("cpu")
_MEM: Final = SlotName("mem")

ResourceLimit = tuple[int, int, int]
"""(RLIMIT_*, soft, hard)."""


class Limits(Struct, frozen=True, kw_only=True):
    """Computes the limits of an agent's kernels."""

    rules: ConfinementRules
    groups: LimitGroups
    limit_memory: bool

    def enforced(self) -> Enforcement:
        """Mechanism that enforces each limit on this host; `none` = not enforced."""
        processes = self.groups.by("pids")
        return Enforcement(
            memory="rlimit" if self.limit_memory else "none",
            processes="rlimit" if processes == "none" else processes,
            cpu=self.groups.by("cpu") if self.rules.limit_cpu else "none",
            open_files="rlimit",
            file_size="rlimit" if self.rules.file_bytes_max else "none",
            wall_time="shim",
        )

    def of_process(self, order: LaunchOrder) -> list[ResourceLimit]:
        """Limits of each single process of a kernel."""
        limits = [(resource.RLIMIT_CORE, 0, 0)]
        memory = sum(order.spec.get(_MEM, {}).values())
        if self.limit_memory and memory > 0:
            # Not RLIMIT_AS: a GPU's driver reserves terabytes of address space that it never uses.
            limits.append((resource.RLIMIT_DATA, memory, memory))
        files = order.limits.open_files or self.rules.open_files
        if files:
            limits.append(_lowered(resource.RLIMIT_NOFILE, files))
        if self.rules.file_bytes_max:
            limits.append(_lowered(resource.RLIMIT_FSIZE, self.rules.file_bytes_max))
        if order.limits.processes is not None and self.groups.by("pids") == "none":
            # RLIMIT_NPROC counts all processes of the account, so it is set only on request.
            limits.append(_lowered(resource.RLIMIT_NPROC, order.limits.processes))
        return limits

    def of_tree(self, order: LaunchOrder) -> list[LimitGroup]:
        """Limits of a kernel as a whole, by cgroup."""
        cpus = sum(order.spec.get(_CPU, {}).values()) if self.rules.limit_cpu else 0
        processes = self.rules.processes if order.limits.processes is None else order.limits.processes
        return self.groups.wanted(order.kernel_id, processes=processes, cpus=cpus)


def _lowered(limit: int, wanted: int) -> ResourceLimit:
    """The limit, capped at the agent's own hard limit, which only root could raise."""
    hard = resource.getrlimit(limit)[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return limit, most, most
