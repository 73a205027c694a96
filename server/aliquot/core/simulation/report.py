"""Simulation report: waits, completion times, slowdowns, utilization and fairness of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from aliquot.core.simulation.trace import Job
from aliquot_schema.ids import ProjectId
from aliquot_schema.resources.slots import MILLI

Floats = npt.NDArray[np.float64]
BOUND_S: Final = 10.0
"""Shorter jobs count with this run time in their slowdown. Source: Feitelson, Metrics for parallel job scheduling."""
HOUR_MS: Final = 3_600_000


@dataclass(slots=True, kw_only=True)
class Timeline:
    """Held capacity and queue length over time: columns of equal length, one entry per pass, valid until the next."""

    at_us: list[int] = field(default_factory=list)
    held_milli: list[int] = field(default_factory=list)
    """Accelerators held, in total."""
    waiting: list[int] = field(default_factory=list)
    """Jobs in the queue."""

    def add(self, at_us: int, *, held_milli: int, waiting: int) -> None:
        """Add the state after a pass."""
        self.at_us.append(at_us)
        self.held_milli.append(held_milli)
        self.waiting.append(waiting)


def used_part(timeline: Timeline, *, capacity_milli: int) -> float:
    """Part of the capacity held while jobs waited; 1 if none ever did."""
    spans = np.diff(np.array(timeline.at_us, dtype=np.int64))
    spans = spans * (np.array(timeline.waiting[:-1], dtype=np.int64) > 0)
    held = np.array(timeline.held_milli[:-1], dtype=np.int64)
    queued_us = int(spans.sum())
    return float(held @ spans.astype(np.float64)) / (queued_us * capacity_milli) if queued_us else 1.0


def means(timeline: Timeline, values: Sequence[int], *, bins: int) -> tuple[Floats, Floats]:
    """Time-weighted means of a column over equal parts of the timeline.

    Returns:
        ([bins] seconds from the first pass to the middle of each part, [bins] mean). Empty if no time passed.
    """
    at_s = (np.array(timeline.at_us, dtype=np.float64) - timeline.at_us[0]) / 1e6
    if at_s[-1] <= 0:
        return np.zeros(0), np.zeros(0)
    edges = np.linspace(0.0, at_s[-1], bins + 1)
    sums = np.concatenate([[0.0], np.cumsum(np.array(values[:-1], dtype=np.float64) * np.diff(at_s))])
    found: Floats = np.diff(np.interp(edges, at_s, sums)) / np.diff(edges)
    return (edges[:-1] + edges[1:]) / 2, found


class Outcome(Struct, frozen=True, kw_only=True):
    """Results of a run; tuples have one entry per job, in order."""

    jobs: tuple[Job, ...]
    started_us: tuple[int, ...]
    """First start of each job."""
    ended_us: tuple[int, ...]
    preemptions: tuple[int, ...]
    """How often each job was preempted."""
    lost_ms: tuple[int, ...]
    """Run time of each job that was lost by preemption."""
    capacity_milli: int
    """All accelerators of the cluster."""
    timeline: Timeline


class Distribution(Struct, frozen=True, kw_only=True):
    """Distribution of one figure over all jobs, in seconds."""

    mean_s: float
    p95_s: float
    max_s: float


class GroupReport(Struct, frozen=True, kw_only=True):
    """Figures of one project."""

    project: ProjectId
    jobs: int
    gpu_hours: float
    jct_mean_s: float
    wait_mean_s: float
    slowdown_mean: float


class Report(Struct, frozen=True, kw_only=True):
    """All figures of a run."""

    jobs: int
    jct: Distribution
    """Job completion time: submission to end."""
    wait: Distribution
    """Time in the queue, before the first and every later start."""
    slowdown_mean: float
    """Completion time / run time, at least 1; run times below 10 s count as 10 s."""
    utilization_pct: float
    """Part of the capacity held while jobs waited; 100 if none ever did."""
    fairness: float
    """Jain's index of the groups' mean slowdowns: 1 = all equal, 1/n = one of n groups has all of it."""
    preemptions: int
    """Number of preemptions."""
    lost_gpu_hours: float
    """GPU-hours lost by preemption."""
    groups: tuple[GroupReport, ...]
    """By GPU-hours, descending."""


class Times(Struct, frozen=True, kw_only=True):
    """[jobs] times in seconds; the slowdown is a ratio."""

    run: Floats
    wait: Floats
    jct: Floats
    slowdown: Floats

    @classmethod
    def of(cls, outcome: Outcome) -> "Times":
        """The times of a run."""
        submit_us = np.array([job.submit_us for job in outcome.jobs], dtype=np.int64)
        run = np.array([job.duration_ms for job in outcome.jobs], dtype=np.float64) / 1e3
        jct = (np.array(outcome.ended_us, dtype=np.int64) - submit_us) / 1e6
        wait = jct - run - np.array(outcome.lost_ms, dtype=np.float64) / 1e3
        return cls(run=run, wait=wait, jct=jct, slowdown=np.maximum(jct / np.maximum(run, BOUND_S), 1.0))


def report(outcome: Outcome) -> Report:
    """The report of a run with at least one job."""
    times = Times.of(outcome)
    groups = _groups(outcome, times)
    return Report(
        jobs=len(outcome.jobs),
        jct=_spread(times.jct),
        wait=_spread(times.wait),
        slowdown_mean=float(times.slowdown.mean()),
        utilization_pct=100 * used_part(outcome.timeline, capacity_milli=outcome.capacity_milli),
        fairness=jain([group.slowdown_mean for group in groups]),
        preemptions=sum(outcome.preemptions),
        lost_gpu_hours=_lost_milli_ms(outcome) / (MILLI * HOUR_MS),
        groups=groups,
    )


def _lost_milli_ms(outcome: Outcome) -> int:
    return sum(lost_ms * job.milli for job, lost_ms in zip(outcome.jobs, outcome.lost_ms, strict=True) if lost_ms)


def _spread(seconds: Floats) -> Distribution:
    return Distribution(
        mean_s=float(seconds.mean()), p95_s=float(np.quantile(seconds, 0.95)), max_s=float(seconds.max())
    )


def _groups(outcome: Outcome, times: Times) -> tuple[GroupReport, ...]:
    members: dict[ProjectId, list[int]] = {}
    for index, job in enumerate(outcome.jobs):
        members.setdefault(job.project, []).append(index)
    gpu_hours = np.array([job.milli for job in outcome.jobs]) / MILLI * times.run / 3600
    found = [
        GroupReport(
            project=project,
            jobs=len(own),
            gpu_hours=float(gpu_hours[own].sum()),
            jct_mean_s=float(times.jct[own].mean()),
            wait_mean_s=float(times.wait[own].mean()),
            slowdown_mean=float(times.slowdown[own].mean()),
        )
        for project, own in members.items()
    ]
    return tuple(sorted(found, key=lambda group: (-group.gpu_hours, group.project)))


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 = all equal, 1/n = one of n has all. Source: Jain, Chiu and Hawe, DEC-TR-301."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
