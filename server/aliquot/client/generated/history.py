"""History.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct


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
