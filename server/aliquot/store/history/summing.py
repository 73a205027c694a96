"""Summing up: the blocks of one tier as a block of the next, and what is old out of the way."""

from collections.abc import Iterator, Sequence

import numpy as np
from sqlalchemy import Connection

from aliquot.service.history.grids import Curves, Gathering, Grid, Ints, Stretch
from aliquot.service.history.measures import MEASURES
from aliquot.store.history import rows
from aliquot.store.history.blocks import DamagedBlock, decode, encode
from aliquot.store.history.rows import SeriesRow
from aliquot.store.history.tiers import BELOW, HOUR_US, MARGIN_US, REACH_US, STEP_US, WINDOW_US, Kept, Tier


def sum_up(connection: Connection, *, series: int, tier: Tier, now_us: int) -> bool:
    """Sum up the next window of a series that is whole, in one transaction; False when there is none."""
    size_us = WINDOW_US[tier]
    with connection.begin():
        one = rows.one_series(connection, series)
        if one is None:
            return False
        # A block may begin before the time that it reaches into.
        reach_us, summed_us = REACH_US[BELOW[tier]], one.summed_us(tier)
        first_us = rows.first_start_us(connection, BELOW[tier], of=one.id, since_us=summed_us - reach_us)
        if first_us is None:
            return False
        start_us = max(summed_us, first_us // size_us * size_us)
        # Hours are made of minutes, which are summed up before.
        if start_us + size_us > now_us - MARGIN_US - (HOUR_US if tier is Tier.HOURS else 0):
            return False
        end_us = start_us + size_us
        found = rows.bodies(connection, BELOW[tier], of=one.id, since_us=start_us - reach_us, until_us=end_us)
        body = summed(one, tier, found, start_us=start_us)
        if body is not None:
            rows.put(connection, tier, [(one.id, start_us, body)])
        rows.move_on(connection, tier, of=one.id, to_us=end_us)
        return True


def remove_old(connection: Connection, series: int, kept: Kept, *, now_us: int) -> tuple[int, bool]:
    """Remove what is older than its tier is kept and was summed up.

    Returns:
        How many blocks went, and whether the series has none any more.
    """
    removed = 0
    with connection.begin():
        one = rows.one_series(connection, series)
        if one is None:
            return 0, False
        for tier, summed_us in ((Tier.RAW, one.minutes_us), (Tier.MINUTES, one.hours_us), (Tier.HOURS, now_us)):
            kept_us = kept.of(tier)
            if kept_us is not None:
                before_us = min(summed_us, now_us - kept_us)
                removed += rows.remove_before(connection, tier, of=series, before_us=before_us)
        return removed, not rows.has_blocks(connection, series)


def summed(one: SeriesRow, tier: Tier, bodies: Sequence[bytes], *, start_us: int) -> bytes | None:
    """Blocks of the tier below as one; None when nothing can be read."""
    measures = MEASURES[one.key.kind]
    step_us = STEP_US[tier]
    grid = Grid(start_us=start_us, step_us=step_us, points=WINDOW_US[tier] // step_us)
    gathering, counts = Gathering(grid, measures), np.zeros(grid.points, np.int64)
    for stretch in readable(bodies, one):
        gathering.add(stretch)
        counts += _counts(stretch, grid)
    curves, there = gathering.curves(), counts > 0
    if not there.any():
        return None
    summary = Stretch(
        devices=one.key.devices,
        at_us=grid.start_us + np.flatnonzero(there) * step_us,
        counts=counts[there],
        mean=_stacked([curves[device] for device in one.key.devices], "mean")[:, :, there],
        maximum=_stacked([curves[device] for device in one.key.devices], "maximum")[:, :, there],
    )
    return encode(summary, measures, has_maxima=True)


def readable(bodies: Sequence[bytes], one: SeriesRow) -> Iterator[Stretch]:
    """What blocks say; damaged ones are left out."""
    for body in bodies:
        try:
            yield decode(body, MEASURES[one.key.kind], one.key.devices)
        except DamagedBlock:
            continue


def _counts(stretch: Stretch, grid: Grid) -> Ints:
    places = (stretch.at_us - grid.start_us) // grid.step_us
    inside = (places >= 0) & (places < grid.points)
    found = np.bincount(places[inside], stretch.counts[inside].astype(np.float64), minlength=grid.points)
    return found.astype(np.int64)


def _stacked(curves: Sequence[Curves], name: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Measures x devices x times."""
    return np.stack([getattr(curve, name) for curve in curves], axis=1)
