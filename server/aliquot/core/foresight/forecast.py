"""Forecasts: when waiting sessions start and end, from many runs of the policy over sampled futures.

Each sample draws run times, see `run_times`, and arrivals, see `arrivals`, and runs the policy until the sessions have
started. With probability 0.8 all sessions of one user and size have the same rank in a sample: they are long or short
together, as such sessions are, and the band of a long queue does not become too narrow.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.foresight.arrivals import ArrivalHistory
from aliquot.core.foresight.bands import BAND_MAX_US, Band, Corrections, band_of
from aliquot.core.foresight.engine import Engine, Future, SimulatedStart, unsupported
from aliquot.core.foresight.never_starts import never_starting
from aliquot.core.foresight.run_times import RANKS, RunHistory, RunTimeCandidates
from aliquot.core.model.agent_index import capacity_milli
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import PoolId, SessionId
from aliquot_schema.resources.slots import MILLI

SAMPLES: Final = 32
DECIDED_ROWS: Final = 200
"""In a state that the fast engine cannot simulate, at most this many waiting sessions are forecast: the next ones."""
DECIDED_WORK: Final = 3_200
"""In such a state, samples times waiting sessions are at most this many: the time grows with both."""
HORIZON_US: Final = BAND_MAX_US
"""Futures end here; a wait that is not over by then counts as this long."""
HOUR_US: Final = 3_600_000_000
COMMON_RANK_TENTHS: Final = 8
RUNS_OF_USER_MIN: Final = 5
RUNS_MIN: Final = 50
LEAVING_US: Final = 60_000_000
"""How much longer a session runs that was asked to end, where its grace is unknown."""
NOW: Final = "now"
TOO_LONG: Final = "it may wait for more than 7 days"
WIDE_PART: Final = 8
"""A gang of this part of the cluster, or more, is wide."""


class Features(Struct, frozen=True, kw_only=True):
    """What was known about a forecast when it was made; its accuracy is counted by this."""

    pool: PoolId
    size: str
    """`single`: at most one GPU; `gang`: more; `wide`: an eighth of the cluster and more."""
    is_new_user: bool
    """Fewer than five ended runs."""
    queue: str
    """Sessions waiting: `<10`, `10-99`, `>=100`."""
    told: str
    """P50 of the wait: `now`, `<10 min`, `10 min-2 h`, `>2 h`."""
    policy_version: int
    milli: int
    """Accelerators of all kernels."""


class ForecastBasis(StrEnum):
    """What a forecast was made from."""

    SIMULATION = "simulation"
    RECENT_WAITS = "recent waits"
    """Waits of sessions of its size; shown while the simulation is clearly worse, see `accuracy.BasisChoice`."""


class HypotheticalSession(Struct, frozen=True, kw_only=True):
    """A session that is not submitted, or a waiting one as it would be with a change."""

    row: PendingRow
    run_times: RunTimes | None
    """Of its workload; None = unknown."""

    def joined(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot in which it waits too; as it would be, if it waits already."""
        known, workload = snapshot.run_times, self.row.workload
        if self.run_times is not None and workload is not None:
            known = {**known, workload: self.run_times}
        left = [row for row in snapshot.queue if row.session_id == self.row.session_id]
        return replace(snapshot, queue=Queue.of(snapshot.queue).changed(left=left, joined=[self.row]), run_times=known)


class Forecast(Struct, frozen=True, kw_only=True):
    """When a waiting session starts and ends. Times are microseconds UTC."""

    session_id: SessionId
    made_us: int
    revision: int
    """Of the snapshot that it was made from."""
    starts_now: bool
    """The next pass starts it: a fact, not a probability."""
    start_us: Band | None
    """None = unknown."""
    end_us: Band | None
    raw_start_us: Band
    """Before the correction, also where the forecast is unknown."""
    raw_end_us: Band
    within_hour: float | None
    """Probability to start within an hour, 0 to 1."""
    raw_within_hour: float
    unknown: str | None
    """Why it is unknown, as text."""
    runs_known: int
    """Ended runs of its owner."""
    features: Features
    basis: ForecastBasis = ForecastBasis.SIMULATION


def forecast_all(
    snapshot: Snapshot,
    policy: Policy,
    runs: RunHistory,
    arrivals: ArrivalHistory,
    corrections: Corrections,
    *,
    now_us: int,
    samples: int = SAMPLES,
    wanted: Collection[SessionId] | None = None,
    first_rows: int | None = None,
) -> dict[SessionId, Forecast]:
    """Forecasts of waiting sessions; the same for the same snapshot and histories.

    Args:
        wanted: only these; futures stop when all of them have started. None = every waiting session.
        first_rows: keep only this many waiting sessions, the next ones first: quicker, less exact. None = all. Of a
            state that the fast engine cannot run, no more than `DECIDED_ROWS` are kept; the others are unknown.
    """
    whole, why = snapshot, unsupported(snapshot, policy)
    is_cut = why is not None and len(snapshot.queue) > DECIDED_ROWS
    if is_cut:
        first_rows = DECIDED_ROWS if first_rows is None else min(first_rows, DECIDED_ROWS)
    plan = decide(snapshot, policy, now_us=now_us, seed=0, explains=first_rows is not None)
    started = dict.fromkeys(placement.session_id for placement in plan.placements)
    snapshot = replace(snapshot, queue=_first(snapshot.queue, [*started, *plan.verdicts], count=first_rows))
    if why is not None:
        samples = min(samples, max(DECIDED_WORK // max(len(snapshot.queue), 1), DECIDED_WORK // DECIDED_ROWS))
    sampler = _Sampler(snapshot, runs, arrivals, now_us=now_us, samples=samples)
    names = list(sampler.rows) if wanted is None else sorted(name for name in wanted if name in sampler.rows)
    waits = [name for name in names if name not in started]
    drawn = sampler.starts(policy, waits) if waits else {}
    maker = _Maker(whole, policy, runs, now_us=now_us)
    made = {}
    for name in names:
        row = sampler.rows[name]
        raw = maker.starting(row, sampler.runs_us(row)) if name in started else maker.waiting(row, drawn[name])
        made[name] = corrected(raw, corrections)
    if why is not None and is_cut:
        made |= {row.session_id: maker.beyond(row, why) for row in _left(whole.queue, sampler.rows, wanted)}
    return made


def _first(queue: Sequence[PendingRow], order: Sequence[SessionId], *, count: int | None) -> Sequence[PendingRow]:
    if count is None or len(queue) <= count:
        return queue
    kept = frozenset(order[:count])
    return Queue.of(row for row in queue if row.session_id in kept)


def _left(
    queue: Sequence[PendingRow], kept: Collection[SessionId], wanted: Collection[SessionId] | None
) -> Iterator[PendingRow]:
    """Waiting sessions that are asked about, and were not kept."""
    asked = None if wanted is None else frozenset(wanted)
    return (row for row in queue if row.session_id not in kept and (asked is None or row.session_id in asked))


class _Sampler:
    """The futures of one snapshot."""

    def __init__(
        self, snapshot: Snapshot, runs: RunHistory, arrivals: ArrivalHistory, *, now_us: int, samples: int
    ) -> None:
        self._snapshot = snapshot
        self._runs = runs
        self._now_us = now_us
        self._samples = samples
        self._seed = split_mix_64(0, snapshot.revision)
        self._arrivals = arrivals
        self._candidates: dict[tuple[Workload, int, int | None], RunTimeCandidates] = {}
        self._elapsed_ms = {row.session_id: self._ran_ms(row) for row in snapshot.running}
        self.rows = {row.session_id: row for row in snapshot.queue}

    def runs_us(self, row: PendingRow) -> list[int]:
        """How long a waiting session runs from its next start on, in each sample."""
        workload, kept_ms = workload_of(row), row.kept_ms
        limit_ms = None if row.limit_ms is None or not kept_ms else kept_ms + row.limit_ms
        drawn = (
            self._drawn_ms(row.session_id, workload, kept_ms, sample, limit_ms=limit_ms)
            for sample in range(self._samples)
        )
        return [(run_ms - kept_ms) * 1000 for run_ms in drawn]

    def starts(self, policy: Policy, wanted: Sequence[SessionId]) -> dict[SessionId, list[SimulatedStart]]:
        """For each session its start and end in each sample; past the horizon it starts at the horizon."""
        coming = self._arrivals.futures(
            self._now_us, horizon_us=HORIZON_US, drawn_us=self._arriving_us, seed=self._seed
        )
        snapshot = replace(self._snapshot, run_times=_Predicted(self._snapshot, self._runs, self._arrivals))
        engine = Engine(snapshot, policy, now_us=self._now_us)
        last_us = self._now_us + HORIZON_US
        never = never_starting(snapshot, policy, until_us=last_us)
        awaited = [name for name in wanted if name not in never]
        found: dict[SessionId, list[SimulatedStart]] = {name: [] for name in wanted}
        waiting = {name: self.runs_us(row) for name, row in self.rows.items()}
        running = {row.session_id: self._left_us(row) for row in snapshot.running}
        for sample in range(self._samples):
            arriving = coming.of(sample)
            run_us = {name: drawn[sample] for name, drawn in waiting.items()}
            future = Future(
                left_us={name: drawn[sample] for name, drawn in running.items()},
                run_us=run_us,
                task_run_us=partial(self._task_run_us, sample),
                arrivals=arriving.arrivals,
                cancels_us=arriving.cancels_us,
            )
            started = engine.starts(future, until_us=last_us, wanted=awaited) if awaited else {}
            for name in wanted:
                found[name].append(started.get(name) or SimulatedStart(last_us, last_us + run_us[name]))
        return found

    def _task_run_us(self, sample: int, array: PendingRow, task: SessionId) -> int:
        return self._drawn_ms(task, workload_of(array), 0, sample) * 1000

    def _left_us(self, row: RunningRow) -> list[int]:
        """How much longer a running session runs in each sample."""
        if row.is_leaving:
            return [max(row.ends_us - self._now_us, LEAVING_US)] * self._samples
        known = self._arrivals.row(row.array_id or row.session_id)
        workload = (
            Workload(user=row.owner, program=None, milli=row.milli, limit_ms=None)
            if known is None
            else workload_of(known)
        )
        elapsed_ms, limit_ms = self._elapsed_ms[row.session_id], self._limit_ms(row)
        drawn = (
            self._drawn_ms(row.session_id, workload, elapsed_ms, sample, limit_ms=limit_ms)
            for sample in range(self._samples)
        )
        return [(run_ms - elapsed_ms) * 1000 for run_ms in drawn]

    def _arriving_us(self, row: PendingRow, sample: int) -> int:
        """The run time of a source of an arrival that has not ended: that of the session itself in this sample."""
        elapsed_ms = self._elapsed_ms.get(row.session_id, 0)
        return self._drawn_ms(row.session_id, workload_of(row), elapsed_ms, sample) * 1000

    def _drawn_ms(
        self, name: SessionId, workload: Workload, elapsed_ms: int, sample: int, *, limit_ms: int | None = None
    ) -> int:
        """A whole run time.

        Args:
            limit_ms: the present time limit, which may be another than at the submission; None = that of `workload`.
        """
        key = workload, elapsed_ms, limit_ms
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = self._runs.candidates(workload, elapsed_ms=elapsed_ms)
            candidates = candidates if limit_ms is None else candidates._replace(limit_ms=limit_ms)
            self._candidates[key] = candidates
        own = split_mix_64(self._seed ^ crc32(name.encode()), sample)
        rank = split_mix_64(own, 1)
        if split_mix_64(own, 2) % 10 < COMMON_RANK_TENTHS:
            rank = split_mix_64(self._seed ^ crc32(f"{workload.user} {workload.milli}".encode()), sample)
        return candidates.at(rank % RANKS, own)

    def _since_us(self, row: RunningRow) -> int:
        """Since when a session runs. External allocations, which were never submitted, hold their devices from the
        grant on; others begin once all of their kernels run."""
        if row.started_us is not None:
            return row.started_us
        is_external = self._arrivals.row(row.array_id or row.session_id) is None
        return row.granted_us if is_external and row.granted_us is not None else self._now_us

    def _ran_ms(self, row: RunningRow) -> int:
        """How long it has run, with what it kept of earlier attempts."""
        return row.kept_ms + max(self._now_us - self._since_us(row), 0) // 1000

    def _limit_ms(self, row: RunningRow) -> int | None:
        """The longest that it can have run when this attempt ends; each attempt has the whole limit."""
        return None if row.limit_us is None else row.kept_ms + max(row.limit_us - self._since_us(row), 0) // 1000


class _Predicted(Mapping[Workload, RunTimes]):
    """Expected run times of waiting and of arriving workloads; the latter are predicted when they arrive."""

    def __init__(self, snapshot: Snapshot, runs: RunHistory, arrivals: ArrivalHistory) -> None:
        self._known: dict[Workload, RunTimes | None] = dict(snapshot.run_times)
        self._waiting = {row.workload for row in snapshot.queue}
        self._runs = runs
        self._arrivals = arrivals

    def __getitem__(self, workload: Workload) -> RunTimes:
        if workload not in self._known:
            self._known[workload] = None if workload in self._waiting else self._runs.predicted(workload)
        found = self._known[workload]
        if found is None:
            raise KeyError(workload)
        return found

    def __iter__(self) -> Iterator[Workload]:
        every = dict.fromkeys((*self._known, *self._arrivals.workloads()))
        return (workload for workload in every if workload in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Maker:
    """Forecasts from samples, before any correction."""

    def __init__(self, snapshot: Snapshot, policy: Policy, runs: RunHistory, *, now_us: int) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._runs = runs
        self._now_us = now_us
        self._capacity_milli = capacity_milli(snapshot.agents)

    def starting(self, row: PendingRow, runs_us: Sequence[int]) -> Forecast:
        """The next pass starts it."""
        now = Band(self._now_us, self._now_us, self._now_us)
        end = band_of(runs_us).later(self._now_us)
        return self._forecast(row, start=now, end=end, within_hour=1.0, told=NOW)

    def waiting(self, row: PendingRow, drawn: Sequence[SimulatedStart]) -> Forecast:
        """It does not start in the next pass."""
        start = band_of([one.at_us for one in drawn])
        end = band_of([one.ends_us for one in drawn])
        wait_us = start.p50 - self._now_us
        told = "<10 min" if wait_us < HOUR_US // 6 else "10 min-2 h" if wait_us <= 2 * HOUR_US else ">2 h"
        within_hour = sum(one.at_us - self._now_us <= HOUR_US for one in drawn) / len(drawn)
        return self._forecast(row, start=start, end=end, within_hour=within_hour, told=told)

    def beyond(self, row: PendingRow, why: str) -> Forecast:
        """An unknown forecast: the session is not among the next ones, and the others are not simulated."""
        last = Band(*(3 * (self._now_us + HORIZON_US,)))
        unknown = f"the queue is long and has {why}: only the next {DECIDED_ROWS} sessions are forecast"
        made = self._forecast(row, start=last, end=last, within_hour=0.0, told=">2 h")
        return replace(made, unknown=unknown, start_us=None, end_us=None, within_hour=None)

    def _forecast(self, row: PendingRow, *, start: Band, end: Band, within_hour: float, told: str) -> Forecast:
        known = self._runs.finished(row.owner)
        return Forecast(
            session_id=row.session_id,
            made_us=self._now_us,
            revision=self._snapshot.revision,
            starts_now=told == NOW,
            start_us=start,
            end_us=end,
            raw_start_us=start,
            raw_end_us=end,
            within_hour=within_hour,
            raw_within_hour=within_hour,
            unknown=self._no_history(known),
            runs_known=known,
            features=self._features(row, told),
        )

    def _no_history(self, known: int) -> str | None:
        total = self._runs.total
        if total < RUNS_MIN:
            have = "session has" if total == 1 else "sessions have"
            return f"{total} {have} ended so far; forecasts need {RUNS_MIN}"
        if known < RUNS_OF_USER_MIN:
            sessions, have = ("session", "has") if known == 1 else ("sessions", "have")
            return f"{known} {sessions} of this user {have} ended so far; forecasts need {RUNS_OF_USER_MIN}"
        return None

    def _features(self, row: PendingRow, told: str) -> Features:
        milli = row.milli
        is_wide = milli > MILLI and WIDE_PART * milli >= self._capacity_milli
        waiting = len(self._snapshot.queue)
        return Features(
            pool=row.where.pool,
            size="single" if milli <= MILLI else "wide" if is_wide else "gang",
            is_new_user=self._runs.finished(row.owner) < RUNS_OF_USER_MIN,
            queue="<10" if waiting < 10 else "10-99" if waiting < 100 else ">=100",
            told=told,
            policy_version=self._policy.version,
            milli=milli,
        )


def corrected(forecast: Forecast, corrections: Corrections) -> Forecast:
    """The forecast as it is to be shown, from its raw bands; unknown where the band reaches further than a week."""
    made_us, pool = forecast.made_us, forecast.features.pool
    end = corrections.ends.corrected(forecast.raw_end_us.later(-made_us), pool=pool).later(made_us)
    if forecast.starts_now:
        return replace(forecast, unknown=None, end_us=None if forecast.unknown else end)
    start = corrections.starts.corrected(forecast.raw_start_us.later(-made_us), pool=pool)
    unknown = forecast.unknown or (TOO_LONG if start.p90 >= BAND_MAX_US else None)
    if unknown:
        return replace(forecast, unknown=unknown, start_us=None, end_us=None, within_hour=None)
    within_hour = corrections.within_hour.calibrated(forecast.raw_within_hour)
    start = start.later(made_us)
    # The corrections are learned apart. A session ends after its start, so each quantile does too.
    end = Band(*map(max, end, start))
    return replace(forecast, start_us=start, end_us=end, within_hour=within_hour)


def workload_of(row: PendingRow) -> Workload:
    """What run times of a session are drawn by."""
    if row.workload is not None:
        return row.workload
    return Workload(user=row.owner, program=None, milli=row.milli, limit_ms=row.limit_ms)
