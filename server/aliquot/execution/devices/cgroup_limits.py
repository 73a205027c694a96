"""What the cgroups that this process is in leave it of the machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLimits:
    """The tightest limits from the process's own group up to the root; None = no limit."""

    cpus: float | None
    """CPU time per time."""
    memory_bytes: int | None


def cgroup_limits(root: Path = Path("/")) -> CgroupLimits:
    """Read the limits, of version 2 and 1 alike; a hybrid host has both.

    Args:
        root: where `/proc` and `/sys` are found.
    """
    cpus: list[float] = []
    memory: list[int] = []
    for folder in _folders(root):
        cpus.extend(_quota(folder))
        memory.extend(_memory(folder))
    return CgroupLimits(cpus=min(cpus, default=None), memory_bytes=min(memory, default=None))


def _folders(root: Path) -> Iterator[Path]:
    """Every group above this process that can be seen.

    A container may show the host's path in `/proc/self/cgroup` while its own group is mounted as the root, so that
    only some of these folders exist.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = [*controllers.split(","), controllers] if controllers else ["", "unified"]
        for hierarchy in dict.fromkeys(mounted / name for name in names):
            group = hierarchy / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(hierarchy))


def _quota(folder: Path) -> Iterator[float]:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        yield int(quota) / int(period)


def _memory(folder: Path) -> Iterator[int]:
    """Version 1 writes a number near 2**63 where there is no limit."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = _text(folder / name)
        if text.isdecimal() and int(text) < 2**62:
            yield int(text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
