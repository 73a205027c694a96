"""Read models of observed use: who uses which GPU, whoever started the processes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPersonView:
    """Somebody who uses a GPU."""

    user: str
    """A user, or the Unix account of processes that belong to no user."""
    processes: int
    """Processes that Aliquot did not start."""
    memory_bytes: int
    """GPU memory of these processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGpuView:
    """One GPU now."""

    node_id: str
    hostname: str
    gpu_id: str
    name: str
    model: str
    utilization_pct: float | None
    memory_used_bytes: int | None
    people: tuple[GpuPersonView, ...]
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPersonView:
    """One person's hours in a week."""

    user: str
    gpu_hours: float
    idle_hours: float
    fair_hours: float
    """An equal part of all GPU time among those who used GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWeekView:
    """What was measured in a week."""

    week: str
    gpu_hours: float
    """Of all GPUs, while the server measured."""
    used_hours: float
    idle_hours: float
    people: tuple[ObservedPersonView, ...]
    would_lose: tuple[str, ...]
    """Sessions that would lose their GPUs now if the policy's idle action were not `observe`."""
