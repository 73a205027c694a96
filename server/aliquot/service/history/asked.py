"""What is asked of history: which time, and in which steps."""

from datetime import datetime
from typing import Final

from aliquot.service.history.grids import SECOND_US, Grid, covering, fitting
from aliquot.service.projection_terms import microseconds
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.history_views import POINTS_MAX

SPAN_US: Final = 3600 * SECOND_US
"""When it is not said from when on."""
USAGE_SPAN_US: Final = 30 * 86_400 * SECOND_US
SPAN_US_MAX: Final = 20 * 365 * 86_400 * SECOND_US
MINUTE_S: Final = 60


def span_of(since: datetime | None, until: datetime | None, *, now_us: int, usual_us: int) -> tuple[int, int]:
    """From when to when, microseconds UTC.

    Raises:
        InvalidRequest: it ends before it begins, or is longer than anything is kept.
    """
    until_us = now_us if until is None else microseconds(until)
    since_us = until_us - usual_us if since is None else microseconds(since)
    if not since_us < until_us:
        raise InvalidRequest("since: give a time before `until`", field="since")
    if until_us - since_us > SPAN_US_MAX or since_us < 0:
        raise InvalidRequest("since: nothing is kept for so long", field="since")
    return since_us, until_us


def grid_of(span: tuple[int, int], *, points: int, least_s: float) -> Grid:
    """The finest steps of so many points at most.

    Raises:
        InvalidRequest: too many points, or too few.
    """
    if not 2 <= points <= POINTS_MAX:
        raise InvalidRequest(f"points: 2 to {POINTS_MAX}, not {points}", field="points")
    return fitting(*span, points=points, least_s=least_s)


def usage_grid_of(span: tuple[int, int], *, step: float | None) -> Grid:
    """Steps as they are asked for; hours or days otherwise.

    Raises:
        InvalidRequest: no whole minutes, or too many of them.
    """
    if step is None:
        return fitting(*span, points=200, least_s=3600.0)
    if not (MINUTE_S <= step <= SPAN_US_MAX / SECOND_US and step % MINUTE_S == 0):
        raise InvalidRequest("step: give whole minutes, in seconds", field="step")
    grid = covering(*span, step_s=round(step))
    if grid.points > POINTS_MAX:
        raise InvalidRequest(f"step: that makes {grid.points} points; at most {POINTS_MAX} are given", field="step")
    return grid
