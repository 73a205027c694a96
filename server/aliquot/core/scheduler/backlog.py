"""Backlog: the predicted work that each pool has still to do, by which the order policies measure waiting.

    backlog     = sum over waiting and running sessions of predicted run time not yet done x part of the pool
    unit of age = 1 h + max(backlog, highest backlog before x exp(-time since / 30 d))

The unit is what the slowest queue, first come, first served, would cost: an hour while the pool is nearly empty, days
while it is swamped. A constant unit suits some clusters and loads only.

Only eligible sessions count: one that is held, or that no agent can run, delays no other. Sessions without accelerators
are counted against the cores of the pool, and the larger of the two sums is the backlog. Integers alone: milliseconds,
and millionths of a pool.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from aliquot.core.fairshare import CPU, decay
from aliquot.core.model.agent_index import AgentIndex, PoolSize
from aliquot.core.model.plan import BacklogPeak
from aliquot.core.model.queue import CORES, LEAST_MILLI, POOL, TASKS, UNKNOWN, IntArray, Queue
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import DAY_MS

AGE_UNIT_MS_MIN: Final = 3_600_000
"""Unit of age in a pool without backlog."""
BACKLOG_MS_MAX: Final = 30 * DAY_MS
"""A predicted run time, and a backlog, count for at most this."""
PEAK_HALF_LIFE_MS: Final = 1_796_637_492
"""30 days x ln 2 = 20.8 days: a peak decays by exp(-t / 30 d)."""
PARTS_OF_POOL: Final = 1_000_000
OVERRUN_DIVISOR: Final = 5
"""A session that has outrun its prediction is predicted to run for another fifth of its time so far."""
NO_SIZE: Final = PoolSize(milli=0, cores=0)
NO_POOL: Final = PoolId("")
T = TypeVar("T", int, IntArray)


class AgeScale(Struct, frozen=True, kw_only=True):
    """What the wait of each pending row is measured by."""

    units_ms: IntArray
    """[rows] unit of age of the row's pool."""
    parts: IntArray
    """[rows] accelerators of all kernels, or cores of a row without accelerators, in millionths of the pool."""


class RunningWork:
    """Running sessions in columns. Independent of the time of a pass, so passes share it."""

    def __init__(self, running: Iterable[RunningRow], *, index: AgentIndex) -> None:
        rows = tuple(running)
        self.pools: Final = index.pools or (NO_POOL,)
        places = {pool: place for place, pool in enumerate(self.pools)}
        held = [_held(row, index) for row in rows]
        self.pool: Final = np.array([places[pool] for pool, _ in held], dtype=np.int64)
        """[rows] position of its pool in `pools`."""
        self.parts: Final = np.array([part for _, part in held], dtype=np.int64)
        """[rows] part of its pool that the row holds, in millionths."""
        self.has_gpus: Final = np.array([row.milli > 0 for row in rows], dtype=np.bool_)
        # A session without an estimate counts as an hour, and not at all after that: nothing is predicted of it.
        estimates = [ESTIMATE_MS_UNKNOWN if row.estimate_ms is None else row.estimate_ms for row in rows]
        self._estimates_ms: Final = np.minimum(np.array(estimates, dtype=np.int64), BACKLOG_MS_MAX)
        self._is_predicted: Final = np.array([row.estimate_ms is not None for row in rows], dtype=np.bool_)
        never_us = int(np.iinfo(np.int64).max)
        started = [never_us if row.started_us is None else row.started_us for row in rows]
        self._started_us: Final = np.array(started, dtype=np.int64)

    def left_ms(self, now_us: int) -> IntArray:
        """[rows] predicted run time not yet done, in milliseconds of the whole pool."""
        elapsed = np.maximum(now_us - self._started_us, 0) // 1000
        overrun = np.where(self._is_predicted, np.minimum(elapsed // OVERRUN_DIVISOR, BACKLOG_MS_MAX), 0)
        left = np.where(elapsed < self._estimates_ms, self._estimates_ms - elapsed, overrun)
        work: IntArray = left * self.parts // PARTS_OF_POOL
        return work


def age_scale(
    snapshot: Snapshot,
    queue: Queue,
    *,
    estimates_ms: IntArray,
    ready: IntArray,
    running: RunningWork,
    index: AgentIndex,
    now_us: int,
) -> tuple[AgeScale, dict[PoolId, BacklogPeak]]:
    """The unit of age of each pending row, and the new peaks of the backlogs.

    Args:
        estimates_ms: [rows] expected run times.
        ready: [rows] 1 = eligible in this pass.
    """
    parts = parts_of_pools(queue, index)
    pool, has_gpus = queue.column(POOL), queue.column(LEAST_MILLI) > 0
    waiting = np.minimum(estimates_ms, BACKLOG_MS_MAX) * parts // PARTS_OF_POOL * queue.column(TASKS) * ready
    left = running.left_ms(now_us)
    units = np.full(len(queue.pools()), AGE_UNIT_MS_MIN, dtype=np.int64)
    peaks: dict[PoolId, BacklogPeak] = {}
    for name, number in sorted((name, number) for number, name in enumerate(queue.pools())):
        mine = pool == number
        if not mine.any():
            continue
        held = running.pool == (running.pools.index(name) if name in running.pools else UNKNOWN)
        of_gpus = waiting[mine & has_gpus].sum() + left[held & running.has_gpus].sum()
        of_cores = waiting[mine & ~has_gpus].sum() + left[held & ~running.has_gpus].sum()
        backlog_ms = min(int(max(of_gpus, of_cores)), BACKLOG_MS_MAX)
        known_ms = peak_ms(snapshot.backlogs.get(name), now_us)
        if backlog_ms > known_ms:
            peaks[name] = BacklogPeak(backlog_ms, now_us)
        units[number] += max(backlog_ms, known_ms)
    return AgeScale(units_ms=units[pool], parts=parts), peaks


def unit_ms(backlog: BacklogPeak | None, now_us: int) -> int:
    """The unit of age of a pool by its last peak."""
    return AGE_UNIT_MS_MIN + peak_ms(backlog, now_us)


def peak_ms(backlog: BacklogPeak | None, now_us: int) -> int:
    """A peak as it counts now."""
    if backlog is None:
        return 0
    return backlog.peak_ms * decay(max(now_us - backlog.at_us, 0), half_life_ms=PEAK_HALF_LIFE_MS) >> 62


def parts_of_pools(queue: Queue, index: AgentIndex) -> IntArray:
    """[rows] see `AgeScale.parts`."""
    sizes = [index.sizes.get(pool, NO_SIZE) for pool in queue.pools()]
    pool, milli = queue.column(POOL), queue.column(LEAST_MILLI)
    whole_milli = np.array([max(size.milli, 1) for size in sizes], dtype=np.int64)[pool]
    whole_cores = np.array([max(size.cores, 1) for size in sizes], dtype=np.int64)[pool]
    parts = np.where(
        milli > 0, milli * PARTS_OF_POOL // whole_milli, queue.column(CORES) * PARTS_OF_POOL // whole_cores
    )
    found: IntArray = np.minimum(parts, PARTS_OF_POOL)
    return found


def width_gain(parts: T) -> T:
    """What the wait of a session counts in addition for its part of the pool, both in millionths: 1.5 times the part.

    A wide session has to wait until much of the pool is free at one time, and short sessions pass it meanwhile.
    """
    return parts * 3 // 2


def _held(row: RunningRow, index: AgentIndex) -> tuple[PoolId, int]:
    """The pool of a running row, and the part of it that the row holds; part 0 if its agent is unknown."""
    agent = index.by_id.get(row.kernels[0].agent_id) if row.kernels else None
    if agent is None:
        return next(iter(index.sizes), NO_POOL), 0
    size = index.sizes[agent.pool]
    if row.milli:
        return agent.pool, row.milli * PARTS_OF_POOL // max(size.milli, row.milli)
    cores = sum(sum(kernel.spec.get(CPU, {}).values()) for kernel in row.kernels)
    return agent.pool, cores * PARTS_OF_POOL // max(size.cores, cores, 1)
