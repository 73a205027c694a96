"""History.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.billing import Cost
from aliquot.client.generated.enums import RightSizeKind, SessionState


class GpuStats(Struct, frozen=True, kw_only=True):
    """Use of one GPU while a session held it. What was measured includes other holders of a shared GPU."""

    agent_id: str
    """The agent."""
    device_id: str
    """The GPU."""
    share: float
    """Held share, 0 to 1."""
    utilization: float | None
    """Mean in percent; null if not measured."""
    utilization_max: float | None
    """Maximum in percent."""
    memory_gb: float | None
    """Memory of the held share, in 10^9 bytes."""
    memory_peak_gb: float | None
    """Most memory in use, in 10^9 bytes."""


class HistorySeries(Struct, frozen=True, kw_only=True):
    """Time series of one metric."""

    metric: str
    """
    Of a device: utilization, memory_used, temperature, power, held. Of the queue: pending, running, submitted, started,
    ended, wait_mean, gpus_total, gpus_held, gpus_held_idle.
    """
    unit: str
    """percent, bytes, celsius, watts, milli, gpus, tasks, sessions or seconds."""
    agent_id: str | None
    """The agent; null = the whole cluster."""
    device_id: str | None
    """The device; null = the whole cluster."""
    values: tuple[float | None, ...]
    """Mean per step; for submitted, started and ended the number per step. Null = nothing was measured."""
    maximum: tuple[float | None, ...] | None
    """Maximum per step; null if `values` are counts."""


class History(Struct, frozen=True, kw_only=True):
    """Time series with equal steps."""

    started_at: datetime
    """Start of the first step, a multiple of the step."""
    step: float
    """Length of a step in seconds."""
    points: int
    """Number of steps."""
    series: tuple[HistorySeries, ...]
    """Series, by agent, device and metric."""
    warning: str | None
    """Why data may be missing; null = complete as far as known."""


class HostStats(Struct, frozen=True, kw_only=True):
    """CPU and host memory that the processes of one rank used, in the newest attempt."""

    rank: int
    """The rank."""
    agent_id: str
    """The agent."""
    cpu: float | None
    """CPUs in use, over the last seconds; null once it has ended."""
    cpu_mean: float | None
    """CPUs in use, mean over its run time."""
    cpu_max: float | None
    """CPUs in use, at most."""
    cpu_held: float | None
    """CPUs of its share; null if it requested none."""
    cpu_seconds: float
    """CPU time since its start, in seconds."""
    memory: int | None
    """Memory in use, in bytes; null once it has ended."""
    memory_peak: int | None
    """Most memory in use at any measurement, in bytes."""
    memory_held: int | None
    """Memory of its share, in bytes; null if none."""


class RightSizeFigure(Struct, frozen=True, kw_only=True):
    """Advice on one part of a request, from past runs of the same command."""

    kind: RightSizeKind
    """The part of the request."""
    advised: str
    """As it is written in a request, like `2`, `0.4`, `24 GiB`, `2 h`."""
    largest: str
    """Largest value of the past runs; the advice has a margin above it."""
    runs: int
    """Past runs that it is made from."""
    enough: int
    """Later runs for which the advice made from the runs before them was enough."""
    tested: int
    """Later runs that were tested."""
    message: str
    """One sentence."""


class RightSize(Struct, frozen=True, kw_only=True):
    """What the next session of a command needs, from past runs of its owner's."""

    command: str
    """Program and size."""
    runs: int
    """Past runs of it that were read."""
    figures: tuple[RightSizeFigure, ...]
    """What a request could ask for instead; empty if what it asks for matches."""
    message: str
    """One sentence."""


class SessionStats(Struct, frozen=True, kw_only=True):
    """What a session used of what it held. Durations are seconds."""

    session_id: str
    """The session."""
    state: SessionState
    """Its state."""
    wait: float
    """From the submission to the start, or until now."""
    ran: float | None
    """Run time of the newest attempt; null if it has not run."""
    time_limit: float | None
    """Its wall-time limit."""
    gpu_hours: float
    """GPU-hours of all attempts; shares count as fractions."""
    lost_gpu_hours: float
    """GPU-hours of work that requeues lost."""
    credited_gpu_hours: float
    """Part of them that its owner is not charged for."""
    held: float
    """Time in which it held GPUs, all attempts together; waits between them do not count."""
    productive: float
    """Run time whose work is not lost."""
    ettr: float | None
    """Effective training time ratio: `productive` / `held`, 0 to 1; null if it has held no GPU."""
    gpus: tuple[GpuStats, ...]
    """Its GPUs."""
    hosts: tuple[HostStats, ...]
    """CPU and host memory of each measured rank."""
    advice: str
    """One sentence for the next session like it."""
    warning: str | None
    """Why measurements may be missing; null = none are."""
    right_size: RightSize | None
    """What the last runs of its command needed; null if fewer than 3 are known. For its owner and operators."""
    cost: Cost | None
    """What it has cost so far, by the present prices; null without prices."""


class UsageSeries(Struct, frozen=True, kw_only=True):
    """Usage of one user or project over time."""

    name: str | None
    """The user or project; null = all others together."""
    gpu_hours: tuple[float, ...]
    """GPU-hours per step; shares count as fractions."""
    utilization: tuple[float | None, ...]
    """Percent: mean over held GPUs, weighted by the share held. Null = nothing was held or measured."""


class UsageHistory(Struct, frozen=True, kw_only=True):
    """Usage by user or project, with equal steps."""

    started_at: datetime
    """Start of the first step, a multiple of the step in UTC."""
    step: float
    """Length of a step in seconds."""
    points: int
    """Number of steps."""
    series: tuple[UsageSeries, ...]
    """Series, largest usage first: at most 100, and one of all others."""
    warning: str | None
    """Why data may be missing; null = complete as far as known."""
