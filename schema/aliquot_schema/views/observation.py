"""Read models of observed use: who uses which GPU, whoever started the processes."""

from msgspec import Struct


class GpuPersonView(Struct, frozen=True, kw_only=True):
    """Somebody who uses a GPU."""

    user: str
    """A user, or the Unix account of processes that belong to no user."""
    processes: int
    """Processes that Aliquot did not start."""
    memory_bytes: int
    """GPU memory of these processes."""


class ObservedGpuView(Struct, frozen=True, kw_only=True):
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


class ObservedPersonView(Struct, frozen=True, kw_only=True):
    """One person's hours in a week."""

    user: str
    gpu_hours: float
    idle_hours: float
    fair_hours: float
    """An equal part of all GPU time among those who used GPUs."""


class ObservedWeekView(Struct, frozen=True, kw_only=True):
    """What was measured in a week."""

    week: str
    gpu_hours: float
    """Of all GPUs, while the server measured."""
    used_hours: float
    idle_hours: float
    people: tuple[ObservedPersonView, ...]
    would_lose: tuple[str, ...]
    """Sessions that would lose their GPUs now if the policy's idle action were not `observe`; empty for a past week."""
