"""A timeline: how much was held, and how many waited, from one pass to the next."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Columns of equal length, one entry a pass; what they say holds until the next one."""

    at_us: list[int] = field(default_factory=list)
    held_milli: list[int] = field(default_factory=list)
    """Of all accelerators."""
    waiting: list[int] = field(default_factory=list)
    """Jobs in the queue."""

    def add(self, at_us: int, *, held_milli: int, waiting: int) -> None:
        """Write down how it is after a pass."""
        self.at_us.append(at_us)
        self.held_milli.append(held_milli)
        self.waiting.append(waiting)


def used_part(timeline: Timeline, *, capacity_milli: int) -> float:
    """The part of the capacity that was held while somebody waited; 1 when nobody ever did."""
    spans = np.diff(np.array(timeline.at_us, dtype=np.int64))
    spans = spans * (np.array(timeline.waiting[:-1], dtype=np.int64) > 0)
    held = np.array(timeline.held_milli[:-1], dtype=np.int64)
    queued_us = int(spans.sum())
    return float(held @ spans.astype(np.float64)) / (queued_us * capacity_milli) if queued_us else 1.0


def means(timeline: Timeline, values: Sequence[int], *, bins: int) -> tuple[Floats, Floats]:
    """The mean over time of a column, in so many equal parts of the timeline.

    Returns:
        ([bins] seconds from the first pass to the middle of each part, [bins] mean). Empty when no time passed.
    """
    at_s = (np.array(timeline.at_us, dtype=np.float64) - timeline.at_us[0]) / 1e6
    if at_s[-1] <= 0:
        return np.zeros(0), np.zeros(0)
    edges = np.linspace(0.0, at_s[-1], bins + 1)
    sums = np.concatenate([[0.0], np.cumsum(np.array(values[:-1], dtype=np.float64) * np.diff(at_s))])
    found: Floats = np.diff(np.interp(edges, at_s, sums)) / np.diff(edges)
    return (edges[:-1] + edges[1:]) / 2, found
