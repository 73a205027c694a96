"""History.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct


class HistorySeries(Struct, frozen=True, kw_only=True):
    """One number over time."""

    metric: str
    """
    Of a device: utilization, memory_used, temperature, power, held. Of the queue: pending, running, submitted, started,
    ended, wait_mean, gpus_total, gpus_held, gpus_held_idle.
    """
    unit: str
    """percent, bytes, celsius, watts, milli, gpus, tasks, sessions or seconds."""
    agent_id: str | None
    """The agent; null where it is the whole cluster's."""
    device_id: str | None
    """The device; null where it is the whole cluster's."""
    values: tuple[float | None, ...]
    """The mean of each step; of submitted, started and ended how many there were. Null where nothing was measured."""
    maximum: tuple[float | None, ...] | None
    """The highest measurement of each step; null where `values` are sums."""


class History(Struct, frozen=True, kw_only=True):
    """What was measured, in equal steps."""

    started_at: datetime
    """When the first step begins: at a multiple of the step."""
    step: float
    """Seconds."""
    points: int
    """How many steps there are."""
    series: tuple[HistorySeries, ...]
    """By agent, device and metric."""
    warning: str | None
    """Why something may be missing."""


class UsageSeries(Struct, frozen=True, kw_only=True):
    """What a user or a project held over time."""

    name: str | None
    """The user or project; null for all others together."""
    gpu_hours: tuple[float, ...]
    """Of whole GPUs, within each step; parts count as parts."""
    utilization: tuple[float | None, ...]
    """
    Percent: the mean of the GPUs while they were held, each by the part of it that was; null where nothing was held, or
    measured.
    """


class UsageHistory(Struct, frozen=True, kw_only=True):
    """Who held how much, in equal steps."""

    started_at: datetime
    """When the first step begins: at a multiple of the step, UTC."""
    step: float
    """Seconds."""
    points: int
    """How many steps there are."""
    series: tuple[UsageSeries, ...]
    """Who held most comes first; at most 100, and the others."""
    warning: str | None
    """Why something may be missing."""
