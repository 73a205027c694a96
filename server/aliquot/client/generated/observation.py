"""Observation.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from msgspec import Struct


class GpuPerson(Struct, frozen=True, kw_only=True):
    """Somebody who uses a GPU."""

    user: str
    """A user, or the Unix account of processes that belong to no user."""
    processes: int
    """Processes that Aliquot did not start; 0 = a session alone."""
    memory_bytes: int
    """GPU memory of these processes."""


class ObservedGpu(Struct, frozen=True, kw_only=True):
    """One GPU now, with who uses it."""

    node_id: str
    """The node."""
    hostname: str
    """The node's hostname."""
    gpu_id: str
    """The GPU."""
    name: str
    """The GPU as its agent names it."""
    model: str
    """Its model."""
    utilization_pct: float | None
    """Utilization, 0 to 100; null = not measured."""
    memory_used_bytes: int | None
    """Memory in use; null = not measured."""
    people: tuple[GpuPerson, ...]
    """Who uses it; empty = nobody."""
    sessions: tuple[str, ...]
    """Sessions that hold it."""


class ObservedPerson(Struct, frozen=True, kw_only=True):
    """One person's GPU-hours in a week."""

    user: str
    """A user, or a Unix account."""
    gpu_hours: float
    """Time with processes or a session on a GPU; shared GPUs in parts."""
    idle_hours: float
    """Part of it while the GPU was not used."""
    fair_hours: float
    """An equal part of all GPU time among those who used GPUs."""


class ObservedWeek(Struct, frozen=True, kw_only=True):
    """What was measured in a week."""

    week: str
    """The ISO week, like `2026-W48`."""
    gpu_hours: float
    """Time of all GPUs while the server measured."""
    used_hours: float
    """Part of it with processes or a session."""
    idle_hours: float
    """Part of that while the GPU was not used."""
    people: tuple[ObservedPerson, ...]
    """By person, the most hours first."""
    would_lose: tuple[str, ...]
    """
    Sessions that would lose their GPUs now if `preemption.idle.action` were not `observe`; of the present week only,
    otherwise empty.
    """
