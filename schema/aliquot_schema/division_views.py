"""Read models of what the cluster is divided into: pools of agents, and projects of people."""

from collections.abc import Callable
from dataclasses import dataclass

from aliquot_schema.admin_views import QuotaView, UsageView
from aliquot_schema.ray_views import SlotCapacityView


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGpusView:
    """The accelerators of a pool, counted as `GpusView` counts the cluster's."""

    count: int
    """All of them, those included that are not healthy."""
    models: str
    """As of `NodeView.gpu_type`."""
    total: float
    available: float
    allocated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPoolView:
    """A pool, and what is in it."""

    name: str
    agents: tuple[str, ...]
    """In natural order."""
    nodes: tuple[str, ...]
    schedulable: bool
    total_queued: int
    running: int
    look: Callable[[], PoolGpusView]
    """Looks at its accelerators, once, when one of the numbers below is asked for."""
    weigh: Callable[[], tuple[SlotCapacityView, ...]]
    """Adds up all of its devices, once, when `capacity` is asked for."""

    @property
    def gpu_count(self) -> int:
        """See `PoolGpusView`, as the following."""
        return self.look().count

    @property
    def gpu_type(self) -> str:
        return self.look().models

    @property
    def total_gpus(self) -> float:
        return self.look().total

    @property
    def available_gpus(self) -> float:
        return self.look().available

    @property
    def allocated_gpus(self) -> float:
        return self.look().allocated

    @property
    def capacity(self) -> tuple[SlotCapacityView, ...]:
        """By slot, in the order of the slots' names."""
        return self.weigh()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectView:
    """A project, and what it does with the cluster."""

    name: str
    users: tuple[str, ...]
    """Who has held something for it, or waits for it now; by name."""
    total_queued: int
    running: int
    allocated_gpus: float
    usage: tuple[UsageView, ...]
    """Of each user who ever held something for it."""
    gpu_hours: float
    gpu_hours_month: float
    share: float
    quota: QuotaView | None
