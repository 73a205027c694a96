"""Usage over time: GPU-hours from the record of holdings, with the utilization of the devices while they were held.

Also the number of held and idle GPUs of the whole cluster, from the newest sample of every agent.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
from msgspec import Struct

from aliquot.service.history.grids import SECOND_US, Curves, Floats, Grid, covering
from aliquot.service.history.measures import DeviceSample, MeasureKind, index_of
from aliquot.service.history.ports import HeldAmount, HistoryStore
from aliquot.service.history.series_views import points
from aliquot.service.metrics.metrics import IDLE_PCT
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.resources.slots import MILLI
from aliquot_schema.views.statistics import UsageSeriesView

NAMED_MAX: Final = 100
"""Users or projects with a series of their own; all others are added up."""
HELD_MAX: Final = 200_000
"""Holdings whose utilization is read."""
HOUR_US: Final = 3_600_000_000

FINEST_S: Final = 10
MINUTE_S: Final = 60
HOUR_S: Final = 3600
FINEST_HOURS_MAX: Final = 100
"""Agent-hours up to which utilization is read every 10 seconds, so that short sessions count correctly."""
FINE_HOURS_MAX: Final = 5_000
"""Agent-hours up to which utilization is read per minute."""
POINTS_PER_READ: Final = 10_000
"""Points read per agent and query: each takes 120 bytes per device."""
TOO_MANY_GRANTS: Final = f"utilization is missing: this range has more than {HELD_MAX:,} grants; ask for a shorter one"
HOURS_ONLY: Final = "utilization is missing: for this range it is kept per hour only; give a step of whole hours"
_UTILIZATION: Final = index_of(MeasureKind.DEVICES, "utilization")
OLD_US: Final = 60_000_000
"""Agents without a sample for this long are not counted."""
_HELD: Final = index_of(MeasureKind.DEVICES, "held")
HELD_PART_MIN: Final = 0.05
"""A step in which a device was held for a smaller part of its readings says nothing about its use while held: means are
stored in half percents."""


@dataclass(slots=True)
class _Sum:
    hours: Floats
    load: Floats
    weight: Floats


class UsageSums:
    """Sums per user or project."""

    def __init__(self, grid: Grid, *, key: Callable[[HeldAmount], str], share: Callable[[HeldAmount], float]) -> None:
        """
        Args:
            key: the user or project that a holding counts for.
            share: the share of the device that is held, 0 to 1.
        """
        self.grid = grid
        self._key = key
        self._share = share
        self._sums: dict[str, _Sum] = {}
        self._by_agent: dict[str, list[HeldAmount]] | None = defaultdict(list)
        self._count = 0

    def add(self, page: Iterable[HeldAmount]) -> None:
        """Add holdings."""
        for held in page:
            first, overlaps = overlap(self.grid, held.from_us, held.ended_us)
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
        """Agents whose devices were held; None: too many holdings to read the utilization of each."""
        return None if self._by_agent is None else sorted(self._by_agent)

    def add_load(self, agent_id: str, *, fine: Grid, curves: Mapping[str, Curves]) -> None:
        """Add the utilization of an agent's devices; `fine` divides the steps of the grid."""
        places = (fine.start_us + np.arange(fine.points) * fine.step_us - self.grid.start_us) // self.grid.step_us
        by_device: dict[str, list[HeldAmount]] = defaultdict(list)
        for held in (self._by_agent or {}).get(agent_id, ()):
            by_device[held.device_id].append(held)
        for device_id, holdings in by_device.items():
            if device_id not in curves:
                continue
            load = self._load_while_held(curves[device_id], holdings, fine=fine)
            for held in holdings:
                first, overlaps = overlap(fine, held.from_us, held.ended_us)
                part = load[first : first + len(overlaps)]
                seen = ~np.isnan(part)
                weights = overlaps[seen] * self._share(held)
                found, at = self._sum(held), places[first : first + len(overlaps)][seen]
                inside = (at >= 0) & (at < self.grid.points)
                np.add.at(found.load, at[inside], weights[inside] * part[seen][inside])
                np.add.at(found.weight, at[inside], weights[inside])

    def _load_while_held(self, curves: Curves, holdings: Sequence[HeldAmount], *, fine: Grid) -> Floats:
        """[fine.points] utilization of a device while it was held: idle readings before and after do not count.

        The part of the readings at which it was held follows from the mean amount held at all readings and the mean
        amount held at a time.
        """
        amount, covered, until_us = np.zeros(fine.points), np.zeros(fine.points), 0
        for held in sorted(holdings, key=lambda one: one.from_us):
            first, overlaps = overlap(fine, held.from_us, held.ended_us)
            amount[first : first + len(overlaps)] += overlaps * self._share(held)
            first, overlaps = overlap(fine, max(held.from_us, until_us), held.ended_us)
            covered[first : first + len(overlaps)] += overlaps
            until_us = max(until_us, held.ended_us)
        load: Floats = curves.mean[_UTILIZATION]
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.minimum(curves.mean[_HELD] / MILLI * covered / amount, 1.0)
            part = np.where(np.isnan(part), 1.0, part)
            return np.where(part < HELD_PART_MIN, np.nan, np.minimum(load / part, 100.0))

    def series(self) -> tuple[UsageSeriesView, ...]:
        """Series in descending order of GPU-hours."""
        names = sorted(self._sums, key=lambda name: (-float(self._sums[name].hours.sum()), name))
        found = [_view(name, [self._sums[name]]) for name in names[:NAMED_MAX]]
        rest = [self._sums[name] for name in names[NAMED_MAX:]]
        return (*found, _view(None, rest)) if rest else tuple(found)

    def _sum(self, held: HeldAmount) -> _Sum:
        key = self._key(held)
        if key not in self._sums:
            self._sums[key] = _Sum(*(np.zeros(self.grid.points) for _ in range(3)))
        return self._sums[key]


def overlap(grid: Grid, since_us: int, until_us: int) -> tuple[int, Floats]:
    """(first, durations): the first step that a time reaches into, and its microseconds per step from there."""
    since_us, until_us = max(since_us, grid.start_us), min(until_us, grid.end_us)
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


async def add_utilization(sums: UsageSums, *, store: HistoryStore) -> str | None:
    """Add the utilization of every agent's devices; returns why it is missing, or None.

    Raises:
        HistoryUnavailable: the store cannot be read.
    """
    agents = sums.agents
    if agents is None:
        return TOO_MANY_GRANTS
    step_s = _step_s(sums.grid, agents=len(agents), least_s=store.least_step_s(sums.grid.start_us))
    if step_s is None:
        return HOURS_ONLY if agents else None
    for agent_id in agents:
        for fine in _parts(sums.grid, step_s=step_s):
            curves = await store.gathered(MeasureKind.DEVICES, agent_id, fine)
            await asyncio.to_thread(sums.add_load, agent_id, fine=fine, curves=curves)
    return None


def _step_s(grid: Grid, *, agents: int, least_s: float) -> int | None:
    """10 seconds, a minute, or an hour where that is too much or not kept. None: the grid's steps are not whole
    hours, so an hour cannot be assigned to one of them."""
    hours = agents * grid.points * grid.step_us / (HOUR_S * SECOND_US)
    if hours <= FINEST_HOURS_MAX and least_s <= FINEST_S:
        return FINEST_S
    is_whole = grid.step_us % (HOUR_S * SECOND_US) == 0
    if least_s < HOUR_S and (hours <= FINE_HOURS_MAX or not is_whole):
        return MINUTE_S
    return HOUR_S if is_whole else None


def _parts(grid: Grid, *, step_s: int) -> Iterator[Grid]:
    """The time range of a grid in finer steps, in parts that fit into memory."""
    size_us = POINTS_PER_READ * step_s * SECOND_US
    for start_us in range(grid.start_us, grid.end_us, size_us):
        yield covering(start_us, min(start_us + size_us, grid.end_us), step_s=step_s)


class GpuUsageSums(Struct, frozen=True, kw_only=True):
    """Numbers of GPUs; a share of a GPU counts as that share."""

    total: float
    held: float
    held_idle: float
    """Held while the device is idle."""


class ClusterSums:
    """Sums over the cluster. A device that several agents of a node report counts once."""

    def __init__(self) -> None:
        self._newest: dict[AgentId, DeviceSample] = {}

    def note(self, sample: DeviceSample) -> None:
        """Add the newest sample of an agent."""
        self._newest[sample.roster.agent_id] = sample

    def at(self, now_us: int) -> GpuUsageSums:
        """The sums at a time, NaN without any sample; silent agents are dropped."""
        self._newest = {name: one for name, one in self._newest.items() if now_us - one.at_us < OLD_US}
        if not self._newest:
            return GpuUsageSums(total=nan, held=nan, held_idle=nan)
        seen: dict[tuple[NodeId, DeviceId], tuple[float, bool]] = {}
        for sample in self._newest.values():
            roster = sample.roster
            for device_id, counted, values in zip(roster.device_ids, roster.counted, sample.values, strict=True):
                if counted:
                    load = values[_UTILIZATION]
                    seen[roster.node_id, device_id] = (values[_HELD] or 0.0, load is not None and load < IDLE_PCT)
        return GpuUsageSums(
            total=float(len(seen)),
            held=sum(held for held, _ in seen.values()) / MILLI,
            held_idle=sum(held for held, is_idle in seen.values() if is_idle) / MILLI,
        )
