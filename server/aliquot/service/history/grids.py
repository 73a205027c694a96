"""Time grids: equal steps that a series is laid out on, and the aggregation of measurements into them."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from aliquot.service.history.measures import Measure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SECOND_US: Final = 1_000_000
STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 14 * 86_400, 28 * 86_400),
)
"""Steps of a minute and more are whole minutes, of an hour and more whole hours."""


class Grid(Struct, frozen=True, kw_only=True):
    """`points` steps of `step_us` from `start_us`, microseconds UTC."""

    start_us: int
    step_us: int
    points: int

    @property
    def end_us(self) -> int:
        """Exclusive end."""
        return self.start_us + self.step_us * self.points


def fitting(since_us: int, until_us: int, *, points: int, least_s: float) -> Grid:
    """The finest grid over a time range with at most `points` steps of at least `least_s` seconds. It starts at a
    multiple of its step."""
    for step_s in STEPS_S:
        grid = covering(since_us, until_us, step_s=step_s)
        if step_s >= least_s and grid.points <= points:
            return grid
    span_us = -(-(until_us - since_us) // (max(points, 2) - 1))
    return covering(since_us, until_us, step_s=-(-span_us // (STEPS_S[-1] * SECOND_US)) * STEPS_S[-1])


def covering(since_us: int, until_us: int, *, step_s: int) -> Grid:
    """The grid with this step over a time range; it starts at a multiple of the step."""
    step_us = step_s * SECOND_US
    start_us = since_us // step_us * step_us
    return Grid(start_us=start_us, step_us=step_us, points=max(1, -(-(until_us - start_us) // step_us)))


class GridSpan(Struct, frozen=True, kw_only=True):
    """Measurements of one series in time order. NaN = not measured."""

    devices: tuple[str, ...]
    at_us: Ints
    counts: Ints
    """Readings per measurement."""
    mean: Floats
    """[measures, devices, times]. Measures with `is_sum` hold their sum."""
    maximum: Floats

    def where(self, wanted: NDArray[np.bool_]) -> "GridSpan":
        """The measurements at the selected times."""
        return GridSpan(
            devices=self.devices,
            at_us=self.at_us[wanted],
            counts=self.counts[wanted],
            mean=self.mean[:, :, wanted],
            maximum=self.maximum[:, :, wanted],
        )


class GridAggregator:
    """Aggregates spans into the steps of a grid, per device."""

    def __init__(self, grid: Grid, measures: Sequence[Measure]) -> None:
        self.grid = grid
        self._is_sum = np.array([measure.is_sum for measure in measures])
        self._sums: dict[str, Floats] = {}
        self._weights: dict[str, Floats] = {}
        self._tops: dict[str, Floats] = {}

    def add(self, span: GridSpan, *, devices: frozenset[str] | None = None) -> None:
        """Add measurements that fall into the grid; `devices` None adds all devices."""
        places = (span.at_us - self.grid.start_us) // self.grid.step_us
        inside = (places >= 0) & (places < self.grid.points)
        for index, device in enumerate(span.devices):
            if inside.any() and (devices is None or device in devices):
                self._add(
                    device,
                    places=places[inside],
                    counts=span.counts[inside],
                    mean=span.mean[:, index][:, inside],
                    maximum=span.maximum[:, index][:, inside],
                )

    def curves(self) -> dict[str, "Curves"]:
        """The aggregates, by device."""
        return {device: self._curves(device) for device in self._sums}

    def _add(self, device: str, *, places: Ints, counts: Ints, mean: Floats, maximum: Floats) -> None:
        shape = (len(self._is_sum), self.grid.points)
        sums = self._sums.setdefault(device, np.zeros(shape))
        weights = self._weights.setdefault(device, np.zeros(shape))
        tops = self._tops.setdefault(device, np.full(shape, -np.inf))
        for index, is_sum in enumerate(self._is_sum):
            seen = ~np.isnan(mean[index])
            at, value = places[seen], mean[index][seen]
            weight = np.ones(len(at)) if is_sum else counts[seen].astype(np.float64)
            sums[index] += np.bincount(at, value * weight, minlength=self.grid.points)
            weights[index] += np.bincount(at, weight, minlength=self.grid.points)
            np.maximum.at(tops[index], at, maximum[index][seen])

    def _curves(self, device: str) -> "Curves":
        sums, weights = self._sums[device], self._weights[device]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(self._is_sum[:, None], sums, sums / weights)
        missing = weights == 0
        mean[missing] = np.nan
        top = np.where(missing, np.nan, self._tops[device])
        return Curves(mean=mean, maximum=top)


class Curves(Struct, frozen=True, kw_only=True):
    """Aggregates of one device: [measures, points]. NaN = not measured in that step."""

    mean: Floats
    """Measures with `is_sum` hold their sum."""
    maximum: Floats
