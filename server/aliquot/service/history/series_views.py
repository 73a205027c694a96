"""Read models of history and usage series."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from aliquot.service.history.grids import SECOND_US, Curves, Floats, Grid
from aliquot.service.history.measures import DEVICE_MEASURES, QUEUE_MEASURES, MeasureKind, index_of
from aliquot.service.views.terms import moment
from aliquot_schema.ids import natural_key
from aliquot_schema.views.statistics import HistorySeriesView, HistoryView, Points, UsageHistoryView, UsageSeriesView

_STARTED = index_of(MeasureKind.QUEUE, "started")
_WAITED = index_of(MeasureKind.QUEUE, "waited")


def history_view(grid: Grid, series: Iterable[HistorySeriesView], *, warning: str | None) -> HistoryView:
    """Series with their grid."""
    return HistoryView(
        started_at=moment(grid.start_us),
        step=grid.step_us / SECOND_US,
        points=grid.points,
        series=tuple(series),
        warning=warning,
    )


def usage_view(grid: Grid, series: tuple[UsageSeriesView, ...], *, warning: str | None) -> UsageHistoryView:
    """Usage with its grid."""
    return UsageHistoryView(
        started_at=moment(grid.start_us),
        step=grid.step_us / SECOND_US,
        points=grid.points,
        series=series,
        warning=warning,
    )


def device_series(agent_id: str, curves: Mapping[str, Curves]) -> Iterator[HistorySeriesView]:
    """One series per device and metric, in the order of device ids; metrics without any value are left out."""
    for device_id in sorted(curves, key=natural_key):
        found = curves[device_id]
        for index, measure in enumerate(DEVICE_MEASURES):
            if not np.isnan(found.mean[index]).all():
                yield HistorySeriesView(
                    metric=measure.name,
                    unit=measure.unit,
                    agent_id=agent_id,
                    device_id=device_id,
                    values=points(found.mean[index]),
                    maximum=points(found.maximum[index]),
                )


def queue_series(found: Curves) -> Iterator[HistorySeriesView]:
    """The series of the queue. The mean wait is taken over the sessions started in a step; None if none started."""
    for index, measure in enumerate(QUEUE_MEASURES):
        mean, name = found.mean[index], measure.name
        if index == _WAITED:
            started = found.mean[_STARTED]
            with np.errstate(invalid="ignore", divide="ignore"):
                mean, name = np.where(started > 0, mean / started, np.nan), "wait_mean"
        yield HistorySeriesView(
            metric=name,
            unit=measure.unit,
            agent_id=None,
            device_id=None,
            values=points(mean),
            maximum=None if measure.is_sum else points(found.maximum[index]),
        )


def points(numbers: Floats) -> Points:
    """Rounded values; None where nothing was measured."""
    rounded = np.round(numbers, 3)
    if not np.isnan(rounded).any():
        return tuple(rounded.tolist())
    return tuple(None if number != number else number for number in rounded.tolist())
