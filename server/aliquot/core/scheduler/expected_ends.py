"""Expected ends: when running sessions are expected to release their devices.

Backfill reserves by these times: upper bounds where a user gave a time limit, estimates elsewhere. Two rules matter:

- A session without a limit is planned with the median of similar runs. A longer bound, such as ten times the median,
  would keep sessions from backfilling that end in time. For one that continues from a checkpoint, the work that the
  checkpoint holds is subtracted.
- A session that has outlived its planned duration is *overdue*. It is expected to run for as long again as it has
  overrun, at least a minute. Expecting it to end now would reserve devices that it still holds, and leave every device
  that really becomes free to others.

Times are microseconds UTC, durations milliseconds, amounts thousandths of a device.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import (
    ESTIMATE_MS,
    KEPT_MS,
    LIMIT_MS,
    POOL,
    UNKNOWN,
    WORKLOAD,
    IntArray,
    Queue,
    first_places,
)
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.prediction import RunTimes, Workload
from aliquot_schema.ids import PoolId
from aliquot_schema.sessions import DEFAULT_POOL

ESTIMATE_MS_UNKNOWN: Final = 3_600_000
"""Estimate of a session without any history."""
PLANNED_MS_MIN: Final = 60_000
OVERRUN_US_MIN: Final = 60_000_000


def estimates_ms(queue: Queue, run_times: Mapping[Workload, RunTimes]) -> IntArray:
    """Expected run time of each pending row; [rows], >= 0. Order policies rank by it.

    The owner's estimate, else the mean of similar runs, else the time limit, else an hour.
    """
    predicted, _ = _predicted_ms(queue, run_times)
    limits = queue.column(LIMIT_MS)
    unknown = np.where(limits < 0, ESTIMATE_MS_UNKNOWN, limits)
    own = queue.column(ESTIMATE_MS)
    return np.where(own >= 0, own, np.where(predicted < 0, unknown, predicted))


def planned_durations_ms(queue: Queue, run_times: Mapping[Workload, RunTimes], policy: Policy) -> IntArray:
    """Run time that backfill plans with; [rows], see `planned_duration_ms`."""
    limits, own = queue.column(LIMIT_MS), queue.column(ESTIMATE_MS)
    _, predicted = _predicted_ms(queue, run_times)
    expected = np.where(predicted >= 0, predicted, np.where(own < 0, ESTIMATE_MS_UNKNOWN, own))
    planned = np.maximum(expected, PLANNED_MS_MIN)
    if policy.pools:
        defaults = {pool: rules.default_limit_ms for pool, rules in policy.pools.items()}
        known = [UNKNOWN if (limit := defaults.get(pool)) is None else limit for pool in queue.pools()]
        of_pool = np.array(known, dtype=np.int64)[queue.column(POOL)]
        planned = np.where(of_pool < 0, planned, of_pool)
    kept = queue.column(KEPT_MS)
    planned = np.where(kept > 0, np.maximum(planned - kept, PLANNED_MS_MIN), planned)
    return np.where(limits < 0, planned, limits)


def planned_duration_ms(
    *,
    estimate_ms: int | None,
    median_ms: int | None = None,
    limit_ms: int | None,
    policy: Policy,
    pool: PoolId = DEFAULT_POOL,
    kept_ms: int = 0,
) -> int:
    """Run time that backfill plans with, for one session.

    The user's limit, else the pool's default, else the median of similar runs, else the owner's estimate, else an hour;
    all but the limit, which each attempt has anew, less the work that is kept from earlier attempts. Only a user's
    limit ends a session. The others shape reservations and never kill.
    """
    if limit_ms is not None:
        return limit_ms
    rules = policy.pools.get(pool)
    planned_ms = None if rules is None else rules.default_limit_ms
    if planned_ms is None:
        expected_ms = estimate_ms if median_ms is None else median_ms
        planned_ms = max(ESTIMATE_MS_UNKNOWN if expected_ms is None else expected_ms, PLANNED_MS_MIN)
    return max(planned_ms - kept_ms, PLANNED_MS_MIN) if kept_ms else planned_ms


def _predicted_ms(queue: Queue, run_times: Mapping[Workload, RunTimes]) -> tuple[IntArray, IntArray]:
    """[rows] mean and median of similar runs; `UNKNOWN` without any."""
    known = np.full((len(queue.workloads()), 2), UNKNOWN, dtype=np.int64)
    column = queue.column(WORKLOAD)
    if run_times:
        workloads = queue.workloads()
        for number in column[first_places(column)].tolist():
            workload = workloads[number]
            found = None if workload is None else run_times.get(workload)
            if found is not None:
                known[number] = found
    return known[column, 0], known[column, 1]


def expected_end_us(row: RunningRow, *, now_us: int) -> int:
    """When a running session is expected to end; always after `now_us`."""
    return int(expected_ends_us((row,), now_us=now_us)[0])


def expected_ends_us(rows: Sequence[RunningRow], *, now_us: int) -> IntArray:
    """[rows] when running sessions are expected to end; each after `now_us`."""
    ends_us = np.array([row.ends_us for row in rows], dtype=np.int64)
    return _extended(ends_us, np.array([row.is_leaving for row in rows], dtype=np.bool_), now_us=now_us)


class PlannedEnds:
    """Running sessions sorted by planned end, in columns. Independent of the time of a pass, so passes share it."""

    def __init__(self, running: Iterable[RunningRow]) -> None:
        self.rows: Final = tuple(running)
        ends_us = np.fromiter((row.ends_us for row in self.rows), dtype=np.int64, count=len(self.rows))
        milli = np.fromiter((row.milli for row in self.rows), dtype=np.int64, count=len(self.rows))
        is_leaving = np.fromiter((row.is_leaving for row in self.rows), dtype=np.bool_, count=len(self.rows))
        self.order: Final = np.argsort(ends_us, kind="stable")
        """[rows] positions in `rows`; the columns below follow this order."""
        self.ends_us: Final = ends_us[self.order]
        self.milli: Final = milli[self.order]
        """Accelerators held by each session."""
        self.is_leaving: Final = is_leaving[self.order]


class ExpectedRelease(Struct, frozen=True):
    """Everything that is expected to be released up to one moment."""

    at_us: int
    rows: Sequence[RunningRow]
    """All sessions expected to have ended by then, earliest first."""


class ExpectedEnds:
    """Running sessions in the order in which they are expected to end, all of them after `now_us`.

    Sessions expected to end at the same moment form one step: a reservation can only start after the whole step.
    Building is O(n log n), a look-up by amount O(log n).
    """

    def __init__(self, ends: PlannedEnds, *, now_us: int) -> None:
        order, times_us, milli = ends.order, ends.ends_us, ends.milli
        if len(times_us) and times_us[0] <= now_us:
            # The longer a session is overdue, the later it is expected to end: the order by planned ends does not hold.
            expected_us = _extended(ends.ends_us, ends.is_leaving, now_us=now_us)
            places = np.argsort(expected_us, kind="stable")
            order, times_us, milli = order[places], expected_us[places], milli[places]
        last_of_step = np.flatnonzero(np.diff(times_us, append=np.iinfo(np.int64).max))
        self._rows: Final = ends.rows
        self._order: Final = order
        self._last_of_step: Final = last_of_step
        self._times_us: Final = times_us[last_of_step]
        self._released_milli: Final = np.cumsum(milli)[last_of_step]

    def __len__(self) -> int:
        """Number of steps."""
        return len(self._last_of_step)

    def release(self, step: int) -> ExpectedRelease:
        """What has been released after a step, 0 <= step < len(self)."""
        numbers = self._order[: self._last_of_step[step] + 1].tolist()
        return ExpectedRelease(int(self._times_us[step]), [self._rows[number] for number in numbers])

    def last_us(self) -> int:
        """When the last session is expected to end; needs at least one."""
        return int(self._times_us[-1])

    def first_step_releasing(self, milli: int) -> int:
        """First step after which at least `milli` have been released in total; len(self) if none."""
        return int(np.searchsorted(self._released_milli, milli))


def _extended(ends_us: IntArray, is_leaving: npt.NDArray[np.bool_], *, now_us: int) -> IntArray:
    """[rows] planned ends, with overdue ones moved into the future; see the module's docstring.

    A leaving session has been asked to stop: its overrun so far says nothing about how long stopping takes.
    """
    overrun_us = np.where(is_leaving, OVERRUN_US_MIN, np.maximum(now_us - ends_us, OVERRUN_US_MIN))
    expected_us: IntArray = np.where(ends_us > now_us, ends_us, now_us + overrun_us)
    return expected_us
