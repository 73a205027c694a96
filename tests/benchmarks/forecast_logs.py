"""Forecasts on public logs, made at submission from past data alone, beside the actual outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from aliquot.core.foresight.accuracy import RecentWaits
from aliquot.core.foresight.arrivals import ArrivalHistory
from aliquot.core.foresight.bands import Corrections
from aliquot.core.foresight.engine import Future, starts
from aliquot.core.foresight.forecast import Forecast, forecast_all, workload_of
from aliquot.core.foresight.run_times import EndedRun, RunHistory
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot.core.simulation.cluster import SimulationSettings, pool
from aliquot.core.simulation.run import simulate
from aliquot.core.simulation.trace import Job
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import DEFAULT_POOL
from simulation import EASY, FAIR_SHARE, KTH_GPUS, PHILLY_GPUS, log_jobs

POLICIES: Final = {"": FAIR_SHARE, "easy_": EASY}
"""By the policy's part of a key; the default policy has none."""
LOGS: Final = {"philly": ("philly_vc", PHILLY_GPUS), "kth": ("kth_sp2", KTH_GPUS)}
COUNTS: Final = {"philly": 1000, "kth": 2500}
"""Number of forecasts."""
SKIPPED: Final = 10
"""The first tenth of each log is not forecast."""


class Pass(NamedTuple):
    """The pass at which a chosen job was submitted."""

    at_us: int
    session_id: SessionId
    snapshot: Snapshot


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A log under a policy."""

    jobs: tuple[Job, ...]
    rows: Mapping[SessionId, PendingRow]
    """The rows at submission."""
    started_us: tuple[int, ...]
    ended_us: tuple[int, ...]
    passes: tuple[Pass, ...]

    @property
    def has_limits(self) -> bool:
        """Whether every job has a time limit."""
        return all(job.limit_ms is not None for job in self.jobs)


def truth(log: str, policy: Policy, *, count: int, jobs_max: int | None = None) -> Truth:
    """The project's simulation of a log, with snapshots at `count` submissions spread over it."""
    trace, gpus = LOGS[log]
    jobs = log_jobs(trace)[:jobs_max]
    first = len(jobs) // SKIPPED
    chosen = {jobs[first + number * (len(jobs) - 1 - first) // (count - 1)].id for number in range(count)}
    passes: list[Pass] = []
    rows: dict[SessionId, PendingRow] = {}

    def keep(now_us: int, snapshot: Snapshot) -> None:
        for row in reversed(snapshot.queue):
            if row.queued_us < now_us:
                break
            rows[row.session_id] = row
            if row.session_id in chosen:
                number = len(passes) + 1
                passes.append(
                    Pass(now_us, row.session_id, replace(snapshot, revision=number, queue=tuple(snapshot.queue)))
                )

    found = simulate(jobs, pool(gpus), SimulationSettings(policy=policy), on_pass=keep)
    return Truth(jobs=found.jobs, rows=rows, started_us=found.started_us, ended_us=found.ended_us, passes=tuple(passes))


@dataclass(frozen=True, kw_only=True)
class Told:
    """A forecast at submission, before any correction, with simpler forecasts and the truth."""

    forecast: Forecast
    started_us: int
    ended_us: int
    average_us: int
    """Exponential moving average of all waits so far, with weight 0.1."""
    class_average_us: int
    """The same of its size class, for those that waited; 0 if it starts directly."""
    by_limits_us: int | None
    """The wait if every session runs until its limit and nothing arrives; None where the log has no limits."""


END, SUBMISSION, START = range(3)


class Past:
    """The known part of a log at a time, from the truth."""

    def __init__(self, truth: Truth) -> None:
        self._jobs = {job.id: job for job in truth.jobs}
        self._rows = truth.rows
        starts = ((at_us, START, job.id) for at_us, job in zip(truth.started_us, truth.jobs, strict=True))
        ends = ((at_us, END, job.id) for at_us, job in zip(truth.ended_us, truth.jobs, strict=True))
        submissions = ((job.submit_us, SUBMISSION, job.id) for job in truth.jobs)
        self._events = sorted((*starts, *ends, *submissions), reverse=True)
        self.average_us = 0
        self.runs = RunHistory()
        self.arrivals = ArrivalHistory()
        self.waits = RecentWaits()

    def until(self, now_us: int) -> None:
        """Add ends and submissions up to this time, and starts before it."""
        while self._events and self._events[-1][:2] < (now_us, START):
            at_us, kind, name = self._events.pop()
            job = self._jobs[name]
            if kind == END:
                self.runs.learn(EndedRun(workload=workload_of(self._rows[name]), duration_ms=job.duration_ms))
                self.arrivals.ended(name, run_ms=job.duration_ms)
            elif kind == SUBMISSION:
                self.arrivals.learn(self._rows[name])
            else:
                self._waited(at_us - job.submit_us, job)

    def _waited(self, wait_us: int, job: Job) -> None:
        self.average_us += (wait_us - self.average_us) // 10
        if wait_us:
            self.waits.learn(wait_us, pool=DEFAULT_POOL, milli=job.milli)


def told(truth: Truth, policy: Policy, *, part: int = 0, parts: int = 1) -> list[Told]:
    """Forecasts of every `parts`-th pass."""
    past = Past(truth)
    numbers = {job.id: number for number, job in enumerate(truth.jobs)}
    found = []
    for at_us, name, snapshot in truth.passes[part::parts]:
        past.until(at_us)
        forecast = forecast_all(
            snapshot, policy, past.runs, past.arrivals, Corrections.new(), now_us=at_us, wanted=[name]
        )[name]
        average_us = past.waits.average_us(pool=DEFAULT_POOL, milli=forecast.features.milli)
        found.append(
            Told(
                forecast=forecast,
                started_us=truth.started_us[numbers[name]],
                ended_us=truth.ended_us[numbers[name]],
                average_us=past.average_us,
                class_average_us=0 if forecast.starts_now or average_us is None else average_us,
                by_limits_us=_by_limits(snapshot, policy, name, now_us=at_us) if truth.has_limits else None,
            )
        )
    return found


def _by_limits(snapshot: Snapshot, policy: Policy, name: SessionId, *, now_us: int) -> int:
    """The wait if every session runs up to its limit and nothing arrives."""
    future = Future(
        left_us={row.session_id: expected_end_us(row, now_us=now_us) - now_us for row in snapshot.running},
        run_us={row.session_id: (row.limit_ms or 0) * 1000 for row in snapshot.queue},
    )
    return starts(snapshot, policy, future, now_us=now_us, wanted=[name])[name].at_us - now_us
