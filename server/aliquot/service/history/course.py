"""The course of a session: when it held devices, and what they measured then."""

from collections.abc import Mapping, Sequence

import numpy as np

from aliquot.service.history.grids import SECOND_US, Curves, Grid
from aliquot.service.history.held import Held
from aliquot.service.history.usage import overlap


def course_of(held: Sequence[Held], *, now_us: int) -> tuple[int, int]:
    """From the first grant to the last release; a minute up to now where nothing was held yet."""
    if not held:
        return now_us - 60 * SECOND_US, now_us
    since_us = min(one.from_us for one in held)
    return since_us, max(since_us + SECOND_US, *(one.ended_us for one in held))


def while_held(curves: Mapping[str, Curves], held: Sequence[Held], *, grid: Grid) -> dict[str, Curves]:
    """What devices measured in the steps that they were held in, be it for a part of one."""
    found: dict[str, Curves] = {}
    for device_id, curve in curves.items():
        outside = np.ones(grid.points, np.bool_)
        for one in held:
            if one.device_id == device_id:
                first, overlaps = overlap(grid, one)
                outside[first : first + len(overlaps)] = False
        found[device_id] = Curves(
            mean=np.where(outside, np.nan, curve.mean), maximum=np.where(outside, np.nan, curve.maximum)
        )
    return found
