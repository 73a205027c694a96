"""Read models of history: numbers over time, in equal steps. None where nothing was measured."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

POINTS_MAX: Final = 2_000
"""Of one answer's series."""

Points = tuple[float | None, ...]


class UsageBy(StrEnum):
    """Whose usage is added up."""

    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySeriesView:
    """One number of one device, or of the cluster."""

    metric: str
    unit: str
    agent_id: str | None
    """None: it is the cluster's."""
    device_id: str | None
    values: Points
    """The mean of each step; of what is counted, how much there was in it."""
    maximum: Points | None
    """The highest in each step; None for what is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """What was measured."""

    started_at: datetime
    step: float
    """Seconds."""
    points: int
    series: tuple[HistorySeriesView, ...]
    warning: str | None
    """Why something may be missing; None: nothing is known to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSeriesView:
    """What somebody held."""

    name: str | None
    """None: all who are not named, together."""
    gpu_hours: tuple[float, ...]
    utilization: Points
    """Percent: the mean of the devices while they were held, each by the part of it that was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageHistoryView:
    """What was held, by user or project; who held most comes first."""

    started_at: datetime
    step: float
    points: int
    series: tuple[UsageSeriesView, ...]
    warning: str | None
