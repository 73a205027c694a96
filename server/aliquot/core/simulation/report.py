"""What a run was like: waits, completion times, slowdowns, use, and how evenly groups were served."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from aliquot.core.simulation.outcome import Outcome
from aliquot.core.simulation.timeline import used_part
from aliquot_schema.ids import ProjectId
from aliquot_schema.slots import MILLI

BOUND_S: Final = 10.0
"""Shorter jobs count as so long in their slowdown. Source: Feitelson, Metrics for parallel job scheduling."""

HOUR_MS: Final = 3_600_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of one figure over all jobs, in seconds."""

    mean_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """One project."""

    project: ProjectId
    jobs: int
    gpu_hours: float
    jct_mean_s: float
    wait_mean_s: float
    slowdown_mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of a run."""

    jobs: int
    jct: Spread
    """From submission to end."""
    wait: Spread
    """In the queue, before the first start and before each later one."""
    slowdown_mean: float
    """Completion time per run time, at least 1; a run time below ten seconds counts as ten."""
    utilization_pct: float
    """Of the capacity, held while somebody waited; 100 when nobody ever did."""
    fairness: float
    """Jain's index of the groups' mean slowdowns: 1 = all alike, 1/n = one of n bears it all."""
    preemptions: int
    """How often somebody had to make room."""
    lost_gpu_hours: float
    """Of work that had to be done again."""
    groups: tuple[GroupReport, ...]
    """The one with most GPU-hours first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """[jobs] how each one fared, in seconds; the slowdown is a ratio."""

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
    """Sum up a run of at least one job."""
    times = Times.of(outcome)
    groups = _groups(outcome, times)
    return Report(
        jobs=len(outcome.jobs),
        jct=_spread(times.jct),
        wait=_spread(times.wait),
        slowdown_mean=float(times.slowdown.mean()),
        utilization_pct=100 * used_part(outcome.timeline, capacity_milli=outcome.capacity_milli),
        fairness=_jain([group.slowdown_mean for group in groups]),
        preemptions=sum(outcome.preemptions),
        lost_gpu_hours=_lost_milli_ms(outcome) / (MILLI * HOUR_MS),
        groups=groups,
    )


def _lost_milli_ms(outcome: Outcome) -> int:
    return sum(lost_ms * job.milli for job, lost_ms in zip(outcome.jobs, outcome.lost_ms, strict=True) if lost_ms)


def _spread(seconds: Floats) -> Spread:
    return Spread(mean_s=float(seconds.mean()), p95_s=float(np.quantile(seconds, 0.95)), max_s=float(seconds.max()))


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


def _jain(values: Sequence[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
