"""Reading: where each tier's blocks are looked for, so that every moment is taken from one tier alone."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection

from aliquot.service.history.grids import Gathering, Grid
from aliquot.store.history import rows
from aliquot.store.history.rows import SeriesRow
from aliquot.store.history.summing import readable
from aliquot.store.history.tiers import STEP_US, WINDOW_US, Kept, Tier

Piece = tuple[Tier, int, int]
"""A tier, and the time that it is read for."""
BLOCKS_AT_ONCE: Final = 96
"""Read in one go; others are answered in between."""


def tier_of(grid: Grid, kept: Kept, *, now_us: int) -> Tier:
    """The coarsest tier that is fine enough, or the finest that is kept."""
    wanted = max((tier for tier in STEP_US if STEP_US[tier] <= grid.step_us), default=Tier.RAW)
    return max(wanted, kept.finest(grid.start_us, now_us=now_us))


def pieces(one: SeriesRow, grid: Grid, tier: Tier) -> Iterator[Piece]:
    """What to read, a little at a time; what is not summed up yet is read from the tier below."""
    for part, since_us, until_us in _parts(one, grid, tier):
        size_us = BLOCKS_AT_ONCE * WINDOW_US[part]
        for start_us in range(since_us, until_us, size_us):
            yield part, start_us, min(start_us + size_us, until_us)


def read_piece(
    connection: Connection,
    one: SeriesRow,
    piece: Piece,
    *,
    into: Gathering,
    devices: frozenset[str] | None,
) -> int:
    """Gather one piece; returns how many of its blocks could not be read."""
    tier, since_us, until_us = piece
    # A block that begins before may reach in; what is in it and outside is cut by the grid.
    found = rows.bodies(connection, tier, of=one.id, since_us=since_us - WINDOW_US[tier], until_us=until_us)
    readable_ones = 0
    for stretch in readable(found, one):
        readable_ones += 1
        inside = (stretch.at_us >= since_us) & (stretch.at_us < until_us)
        into.add(stretch.where(inside), devices=devices)
    return len(found) - readable_ones


def _parts(one: SeriesRow, grid: Grid, tier: Tier) -> Iterator[Piece]:
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
