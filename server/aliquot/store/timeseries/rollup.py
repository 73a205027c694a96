"""Rollup: summarises blocks of one tier into blocks of the next, removes expired ones, and plans reads over the tiers.

Each moment of a read comes from exactly one tier.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from sqlalchemy import Connection

from aliquot.service.history.grids import Curves, Grid, GridAggregator, GridSpan, Ints
from aliquot.service.history.measures import MEASURES
from aliquot.store.timeseries import rows
from aliquot.store.timeseries.blocks import DamagedBlock, decode, encode
from aliquot.store.timeseries.rows import SeriesRow
from aliquot.store.timeseries.tiers import BELOW, HOUR_US, MARGIN_US, REACH_US, STEP_US, WINDOW_US, Tier, TierRetention


def roll_up(connection: Connection, *, series: int, tier: Tier, now_us: int) -> bool:
    """Roll up the next complete window of a series in one transaction; False if there is none."""
    size_us = WINDOW_US[tier]
    with connection.begin():
        one = rows.one_series(connection, series)
        if one is None:
            return False
        # A block that begins before the window may reach into it.
        reach_us, rolled_up_us = REACH_US[BELOW[tier]], one.rolled_up_us(tier)
        first_us = rows.first_start_us(connection, BELOW[tier], of=one.id, since_us=rolled_up_us - reach_us)
        if first_us is None:
            return False
        start_us = max(rolled_up_us, first_us // size_us * size_us)
        # Hours are made of minutes, which are rolled up first.
        if start_us + size_us > now_us - MARGIN_US - (HOUR_US if tier is Tier.HOURS else 0):
            return False
        end_us = start_us + size_us
        found = rows.bodies(connection, BELOW[tier], of=one.id, since_us=start_us - reach_us, until_us=end_us)
        body = rolled_up(one, tier, found, start_us=start_us)
        if body is not None:
            rows.replace_blocks(connection, tier, [(one.id, start_us, body)])
        rows.advance(connection, tier, of=one.id, to_us=end_us)
        return True


def remove_expired(connection: Connection, series: int, kept: TierRetention, *, now_us: int) -> tuple[int, bool]:
    """Remove blocks that are past their retention and rolled up.

    Returns:
        Number of removed blocks, and whether the series has none left.
    """
    removed = 0
    with connection.begin():
        one = rows.one_series(connection, series)
        if one is None:
            return 0, False
        for tier, rolled_up_us in ((Tier.RAW, one.minutes_us), (Tier.MINUTES, one.hours_us), (Tier.HOURS, now_us)):
            kept_us = kept.of(tier)
            if kept_us is not None:
                before_us = min(rolled_up_us, now_us - kept_us)
                removed += rows.remove_before(connection, tier, of=series, before_us=before_us)
        return removed, not rows.has_blocks(connection, series)


def rolled_up(one: SeriesRow, tier: Tier, bodies: Sequence[bytes], *, start_us: int) -> bytes | None:
    """Combine blocks of the tier below into one; None if none is readable."""
    measures = MEASURES[one.key.kind]
    step_us = STEP_US[tier]
    grid = Grid(start_us=start_us, step_us=step_us, points=WINDOW_US[tier] // step_us)
    gathering, counts = GridAggregator(grid, measures), np.zeros(grid.points, np.int64)
    for span in readable(bodies, one):
        gathering.add(span)
        counts += _sample_counts(span, grid)
    curves, present = gathering.curves(), counts > 0
    if not present.any():
        return None
    summary = GridSpan(
        devices=one.key.devices,
        at_us=grid.start_us + np.flatnonzero(present) * step_us,
        counts=counts[present],
        mean=_stacked([curves[device] for device in one.key.devices], "mean")[:, :, present],
        maximum=_stacked([curves[device] for device in one.key.devices], "maximum")[:, :, present],
    )
    return encode(summary, measures, has_maxima=True)


def readable(bodies: Sequence[bytes], one: SeriesRow) -> Iterator[GridSpan]:
    """Decode blocks; damaged ones are skipped."""
    for body in bodies:
        try:
            yield decode(body, MEASURES[one.key.kind], one.key.devices)
        except DamagedBlock:
            continue


def _sample_counts(span: GridSpan, grid: Grid) -> Ints:
    places = (span.at_us - grid.start_us) // grid.step_us
    inside = (places >= 0) & (places < grid.points)
    found = np.bincount(places[inside], span.counts[inside].astype(np.float64), minlength=grid.points)
    return found.astype(np.int64)


def _stacked(curves: Sequence[Curves], name: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Array of measures x devices x times."""
    return np.stack([getattr(curve, name) for curve in curves], axis=1)


ReadRange = tuple[Tier, int, int]
"""A tier, and the start and end of the time read from it, microseconds UTC."""
READ_BLOCKS: Final = 96
"""Blocks per read; other requests run in between."""


def tier_for(grid: Grid, kept: TierRetention, *, now_us: int) -> Tier:
    """The coarsest tier that is fine enough for a grid, or the finest one that still has its start."""
    wanted = max((tier for tier in STEP_US if STEP_US[tier] <= grid.step_us), default=Tier.RAW)
    return max(wanted, kept.finest(grid.start_us, now_us=now_us))


def read_ranges(one: SeriesRow, grid: Grid, tier: Tier) -> Iterator[ReadRange]:
    """The reads for a grid, in parts. What is not rolled up yet is read from the tier below."""
    for part, since_us, until_us in _tier_ranges(one, grid, tier):
        size_us = READ_BLOCKS * WINDOW_US[part]
        for start_us in range(since_us, until_us, size_us):
            yield part, start_us, min(start_us + size_us, until_us)


def read_range(
    connection: Connection,
    one: SeriesRow,
    part: ReadRange,
    *,
    into: GridAggregator,
    devices: frozenset[str] | None,
) -> int:
    """Gather one part; returns the number of unreadable blocks."""
    tier, since_us, until_us = part
    # A block that begins before the part may reach into it; samples outside are dropped below.
    found = rows.bodies(connection, tier, of=one.id, since_us=since_us - WINDOW_US[tier], until_us=until_us)
    readable_ones = 0
    for span in readable(found, one):
        readable_ones += 1
        inside = (span.at_us >= since_us) & (span.at_us < until_us)
        into.add(span.where(inside), devices=devices)
    return len(found) - readable_ones


def _tier_ranges(one: SeriesRow, grid: Grid, tier: Tier) -> Iterator[ReadRange]:
    hours_us = one.hours_us if tier is Tier.HOURS else grid.start_us
    minutes_us = max(one.minutes_us, hours_us) if tier is not Tier.RAW else grid.start_us
    edges = (grid.start_us, min(max(hours_us, grid.start_us), grid.end_us))
    if edges[0] < edges[1]:
        yield Tier.HOURS, *edges
    edges = (edges[1], min(max(minutes_us, edges[1]), grid.end_us))
    if edges[0] < edges[1]:
        yield Tier.MINUTES, *edges
    if edges[1] < grid.end_us:
        yield Tier.RAW, edges[1], grid.end_us
