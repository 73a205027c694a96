"""Read models of numbers: how long the queue is and lets wait, and what GPUs the cluster has. Times are seconds."""

from collections.abc import Callable
from dataclasses import dataclass

from aliquot_schema.ray_views import RayView, SlotCapacityView
from aliquot_schema.views import HolderView


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitBucketView:
    """How many sessions waited for so long before devices were granted to them."""

    at_least: float
    below: float | None
    """None: however long."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatisticsView:
    """The queue now, and how it went in the time just before."""

    revision: int
    total_queued: int
    """Tasks that wait; a job array counts those of it that do."""
    oldest_wait: float | None
    """Of those that wait now, how long the one has waited that waits longest; None when nobody waits."""
    window: float
    """The time that the rest is about, up to now: an hour, or less when not all of it is kept in memory."""
    started: int
    """Sessions and tasks of arrays that devices were granted to."""
    finished: int
    """Those that ran and ended."""
    average_wait_time: float | None
    """Of those that were started; None when none was."""
    median_wait_time: float | None
    throughput: float
    """Finished, per hour."""
    wait_distribution: tuple[WaitBucketView, ...]
    """Of those that were started; the buckets follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """A GPU, or a slice of one that is a device of its own."""

    id: str
    node_id: str
    name: str
    model: str
    available: bool
    """Whether it may be given to somebody new, as far as something of it is free."""
    memory_total: int
    """Bytes."""
    memory_used: int | None
    """Bytes at the last sample."""
    utilization: float | None
    """Percent at the last sample."""
    temperature: float | None
    """Degrees Celsius at the last sample."""
    allocated: float
    """The part of it that is held, 0 to 1."""
    allocated_to: tuple[HolderView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A host with agents."""

    node_id: str
    hostname: str
    gpu_count: int
    gpu_type: str
    """The models of its GPUs, most of them first, with commas; empty without GPUs."""
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusView:
    """All GPUs. A shared one counts by its parts: with 0.3 of one held, 0.7 of it is available."""

    total_gpus: float
    """Healthy ones."""
    available_gpus: float
    """What of these may be given to somebody, in whatever pieces."""
    allocated_gpus: float
    """What of these is held."""
    nodes: tuple[NodeView, ...]
    gpus: tuple[GpuView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What agents are on, beside hosts of their own, and what they have together."""

    ray: RayView | None
    """None: this server does not use Ray."""
    capacity: tuple[SlotCapacityView, ...] = ()
    """In the order of the slots' names."""
    look: Callable[[], GpusView]
    """Looks at all GPUs, once, when one of the numbers below is asked for."""

    @property
    def total_gpus(self) -> float:
        """See `GpusView`, as the following."""
        return self.look().total_gpus

    @property
    def available_gpus(self) -> float:
        return self.look().available_gpus

    @property
    def allocated_gpus(self) -> float:
        return self.look().allocated_gpus

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        return self.look().nodes

    @property
    def gpus(self) -> tuple[GpuView, ...]:
        return self.look().gpus
