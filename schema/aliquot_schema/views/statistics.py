"""Read models of time series, queue statistics and the cluster's GPUs.

Time series have equal steps; None = nothing was measured. Durations are seconds.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedStr
from aliquot_schema.states import SessionState
from aliquot_schema.views.agents import HolderView
from aliquot_schema.views.billing import CostView
from aliquot_schema.views.right_size import RightSizeView
from aliquot_schema.views.server import RayView, SlotCapacityView

POINTS_MAX: Final = 2_000
"""Points per series."""

Points = tuple[float | None, ...]


class UsageBy(DescribedStr):
    """Grouping of usage."""

    USER = "user", "One row per user."
    PROJECT = "project", "One row per project."


class HistorySeriesView(Struct, frozen=True, kw_only=True):
    """Time series of one metric, of a device or of the cluster."""

    metric: str
    unit: str
    agent_id: str | None
    """None = the cluster."""
    device_id: str | None
    values: Points
    """Mean per step; for counters, the sum per step."""
    maximum: Points | None
    """Maximum per step; None for counters."""


class HistoryView(Struct, frozen=True, kw_only=True):
    """Time series over a period."""

    started_at: datetime
    step: float
    """Seconds."""
    points: int
    series: tuple[HistorySeriesView, ...]
    warning: str | None
    """Why data may be missing; None = complete as far as known."""


class UsageSeriesView(Struct, frozen=True, kw_only=True):
    """Usage of one user or project over time."""

    name: str | None
    """None = all others together."""
    gpu_hours: tuple[float, ...]
    utilization: Points
    """Percent: mean over held devices, weighted by the share held."""


class UsageHistoryView(Struct, frozen=True, kw_only=True):
    """Usage by user or project, largest first."""

    started_at: datetime
    step: float
    points: int
    series: tuple[UsageSeriesView, ...]
    warning: str | None


class WaitBucketView(Struct, frozen=True, kw_only=True):
    """Histogram bucket of waiting times until devices were granted."""

    at_least: float
    below: float | None
    """None = unbounded."""
    count: int


class QueueStatisticsView(Struct, frozen=True, kw_only=True):
    """The queue now, and its throughput in the preceding window."""

    revision: int
    total_queued: int
    """Waiting tasks; a job array counts its waiting tasks."""
    oldest_wait: float | None
    """Longest wait so far; None = the queue is empty."""
    window: float
    """Length of the window of the fields below: one hour, or less if memory does not cover it."""
    started: int
    """Sessions and array tasks that were granted devices."""
    finished: int
    """Sessions and array tasks that ran and ended."""
    average_wait_time: float | None
    """Of those started; None = none."""
    median_wait_time: float | None
    throughput: float
    """Jobs per hour: `finished`, scaled to an hour."""
    wait_distribution: tuple[WaitBucketView, ...]
    """Of those started; contiguous buckets."""


class IdleBehindQuotasView(Struct, frozen=True, kw_only=True):
    """Free GPUs that waiting sessions would fit, if quotas did not hold these sessions back."""

    gpus_free: float
    """Fractions count."""
    sessions_held_back: int
    """Waiting sessions with the reason `quota` that request accelerators; a job array counts once."""
    sessions_waiting: int
    """Without held ones."""
    message: str


class GpuView(Struct, frozen=True, kw_only=True):
    """A GPU, or a slice of one that is a separate device."""

    id: str
    node_id: str
    name: str
    model: str
    available: bool
    """Whether its free part can be allocated."""
    memory_total: int
    """Bytes."""
    memory_used: int | None
    """Bytes at the last sample."""
    utilization: float | None
    """Percent at the last sample."""
    temperature: float | None
    """Degrees Celsius at the last sample."""
    allocated: float
    """Share that is held, 0 to 1."""
    allocated_to: tuple[HolderView, ...]


class NodeView(Struct, frozen=True, kw_only=True):
    """A host with agents."""

    node_id: str
    hostname: str
    gpu_count: int
    gpu_type: str
    """Models of its GPUs, most frequent first, comma-separated; empty = no GPUs."""
    agents: tuple[str, ...]
    gpus: tuple[GpuView, ...] = ()
    """As in `GpusView.gpus`, those of this host."""


class GpusView(Struct, frozen=True, kw_only=True):
    """All GPUs, except those of lost agents. Shared ones count fractionally: with 0.3 of one held, 0.7 of it is
    available."""

    total_gpus: float
    """Healthy ones."""
    available_gpus: float
    """Part of these that can be allocated, fragmented or not."""
    allocated_gpus: float
    """Part of these that is held."""
    nodes: tuple[NodeView, ...]
    gpus: tuple[GpuView, ...]


class ClusterView(Struct, frozen=True, kw_only=True):
    """The cluster: nodes, GPUs, capacity by slot, and its Ray cluster."""

    ray: RayView | None
    """None = this server does not use Ray."""
    capacity: tuple[SlotCapacityView, ...] = ()
    """In order of slot names."""
    look: Callable[[], GpusView]
    """Counts all GPUs; called when one of the GPU fields is requested, cached by the caller."""

    @property
    def total_gpus(self) -> float:
        """See `GpusView`; likewise the next four."""
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


class GpuStatsView(Struct, frozen=True, kw_only=True):
    """Use of one GPU while a session held it. Other holders of a shared GPU are included in what was measured."""

    agent_id: str
    device_id: str
    share: float
    """Held share, 0 to 1."""
    utilization: float | None
    """Mean in percent; None = not measured."""
    utilization_max: float | None
    memory_gb: float | None
    """Memory of the held share, in 10^9 bytes; None = unknown."""
    memory_peak_gb: float | None


class HostStatsView(Struct, frozen=True, kw_only=True):
    """CPU and host memory that the processes of one rank used, in the newest attempt. None = not measured."""

    rank: int
    agent_id: str
    cpu: float | None
    """CPUs in use, over the last seconds; None once it has ended."""
    cpu_mean: float | None
    """Mean over its run time."""
    cpu_max: float | None
    cpu_held: float | None
    """CPUs that it holds or held; None = it requested none."""
    cpu_seconds: float
    """CPU time since its start."""
    memory: int | None
    """Bytes in use; None once it has ended."""
    memory_peak: int | None
    """Bytes, the most of any measurement."""
    memory_held: int | None
    """Bytes that it holds or held; None = it requested none."""


class SessionStatsView(Struct, frozen=True, kw_only=True):
    """What a session used of what it held. Durations are seconds."""

    session_id: str
    state: SessionState
    wait: float
    """From the submission to the start, or until now."""
    ran: float | None
    """Run time of the newest attempt; None = it has not run."""
    time_limit: float | None
    gpu_hours: float
    """Of all attempts; shares count as fractions."""
    lost_gpu_hours: float
    """Work that requeues lost, in GPU-hours."""
    credited_gpu_hours: float
    """Part of it that its owner is not charged for."""
    held: float
    """Time that it held GPUs, in all attempts; waits between them do not count."""
    productive: float
    """Run time whose work is not lost."""
    ettr: float | None
    """Effective training time ratio, `productive` / `held`, 0 to 1; None = it has held no GPU."""
    gpus: tuple[GpuStatsView, ...]
    hosts: tuple[HostStatsView, ...]
    """One entry per measured rank of the newest attempt."""
    advice: str
    """One sentence."""
    warning: str | None
    """Why measurements may be missing."""
    right_size: RightSizeView | None = None
    """What the last runs of its command needed; None = too few are known, or the caller may not see them."""
    cost: CostView | None = None
    """What it has cost so far; None = there are no prices."""
