"""Usage over time: GPU-hours by the record of what was held, with what the devices did meanwhile."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from aliquot.service.history.grids import Floats, Grid
from aliquot.service.history.held import Held
from aliquot.service.history.projection import points
from aliquot_schema.history_views import UsageSeriesView

NAMED_MAX: Final = 100
"""Who is named; all others are added up."""
HELD_MAX: Final = 200_000
"""Holdings whose utilisation is looked up."""
HOUR_US: Final = 3_600_000_000


@dataclass(slots=True)
class _Sum:
    hours: Floats
    load: Floats
    weight: Floats


class UsageSums:
    """By whoever `key` says."""

    def __init__(self, grid: Grid, *, key: Callable[[Held], str], share: Callable[[Held], float]) -> None:
        """`share`: which part of the device is held, 0 to 1."""
        self.grid = grid
        self._key = key
        self._share = share
        self._sums: dict[str, _Sum] = {}
        self._by_agent: dict[str, list[Held]] | None = defaultdict(list)
        self._count = 0

    def add(self, page: Iterable[Held]) -> None:
        """Take in holdings."""
        for held in page:
            first, overlaps = overlap(self.grid, held)
            if not len(overlaps):
                continue
            hours = self._sum(held).hours
            hours[first : first + len(overlaps)] += overlaps * (self._share(held) / HOUR_US)
            self._count += 1
            if self._by_agent is not None:
                self._by_agent[held.agent_id].append(held)
                if self._count > HELD_MAX:
                    self._by_agent = None

    @property
    def agents(self) -> list[str] | None:
        """Whose devices were held; None: there are too many holdings to look at what each did."""
        return None if self._by_agent is None else sorted(self._by_agent)

    def weigh(self, agent_id: str, *, fine: Grid, loads: dict[str, Floats]) -> None:
        """Take in what an agent's devices did; `fine` divides the steps of the grid."""
        places = (fine.start_us + np.arange(fine.points) * fine.step_us - self.grid.start_us) // self.grid.step_us
        for held in (self._by_agent or {}).get(agent_id, ()):
            load = loads.get(held.device_id)
            if load is None:
                continue
            first, overlaps = overlap(fine, held)
            part = load[first : first + len(overlaps)]
            seen = ~np.isnan(part)
            weights = overlaps[seen] * self._share(held)
            found, at = self._sum(held), places[first : first + len(overlaps)][seen]
            inside = (at >= 0) & (at < self.grid.points)
            np.add.at(found.load, at[inside], weights[inside] * part[seen][inside])
            np.add.at(found.weight, at[inside], weights[inside])

    def series(self) -> tuple[UsageSeriesView, ...]:
        """Who held most comes first."""
        names = sorted(self._sums, key=lambda name: (-float(self._sums[name].hours.sum()), name))
        found = [_view(name, [self._sums[name]]) for name in names[:NAMED_MAX]]
        rest = [self._sums[name] for name in names[NAMED_MAX:]]
        return (*found, _view(None, rest)) if rest else tuple(found)

    def _sum(self, held: Held) -> _Sum:
        key = self._key(held)
        if key not in self._sums:
            self._sums[key] = _Sum(*(np.zeros(self.grid.points) for _ in range(3)))
        return self._sums[key]


def overlap(grid: Grid, held: Held) -> tuple[int, Floats]:
    """The first step that something is held in, and how long it is in each from there on, microseconds."""
    since_us = max(held.from_us, grid.start_us)
    until_us = min(held.ended_us, grid.end_us)
    if since_us >= until_us:
        return 0, np.zeros(0)
    first = (since_us - grid.start_us) // grid.step_us
    last = -(-(until_us - grid.start_us) // grid.step_us)
    starts = grid.start_us + np.arange(first, last) * grid.step_us
    return first, np.minimum(starts + grid.step_us, until_us) - np.maximum(starts, since_us).astype(np.float64)


def _view(name: str | None, sums: list[_Sum]) -> UsageSeriesView:
    load, weight = sum(one.load for one in sums), sum(one.weight for one in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(np.asarray(weight) > 0, load / np.asarray(weight), np.nan)
    hours = np.asarray(sum(one.hours for one in sums))
    return UsageSeriesView(name=name, gpu_hours=tuple(np.round(hours, 6).tolist()), utilization=points(mean))
