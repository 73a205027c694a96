"""Buckets: waiting sessions grouped so that within a group the order never changes.

Sessions of one bucket agree in everything that order, placement, backfill and quotas read, except the time of
submission: request, kernels, constraints, priority, owner, project, expected run time. Under every order policy the
score of such sessions falls with the time of submission. A bucket is therefore a queue, first in, first out, and a pass
looks at the first session of each bucket alone. That stays true when usage, the unit of age, or a prediction changes:
then the scores of whole buckets move, not the order inside one.
"""

from bisect import insort
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from aliquot.core.fairshare import CPU
from aliquot.core.foresight.accounts import AccountNames, Floats
from aliquot.core.foresight.node_capacity import Nodes, PlacementNeeds
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import LEAST_MILLI, Codes, IntArray, Kind, Queue, kind_of
from aliquot.core.model.snapshot import PendingRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.quota import counted
from aliquot.core.scheduler.backlog import BACKLOG_MS_MAX, PARTS_OF_POOL, parts_of_pools, width_gain
from aliquot.core.scheduler.eligibility import preferred
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN, planned_duration_ms
from aliquot.core.scheduler.feasibility import FeasibilityCache, feasible_agents
from aliquot.core.scheduler.ordering import DURATION_MAX_MS
from aliquot.core.scheduler.shares import PARTS_PER_ONE
from aliquot_schema.ids import PoolId, ProjectId, SessionId, UserId, task_parts
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import QuotaScope, quota_id
from aliquot_schema.sessions import Priority

LAST_US: Final = 2**62
"""Later than every submission."""
Place = tuple[int, SessionId]
"""Submission and id: the place of a session in the queue."""
BucketKey = tuple[Kind, Priority, UserId, ProjectId, Workload | None, int | None, int | None, int]


class Bucket:
    """What the sessions of a bucket have in common."""

    def __init__(
        self, number: int, row: PendingRow, *, kind: int, spots: tuple[PlacementNeeds, ...], account: int
    ) -> None:
        self.number: Final = number
        self.kind: Final = kind
        self.spots: Final = spots
        """Where it is placed, the most preferred constraints first; the last one has the hard constraints alone."""
        self.account: Final = account
        self.row: Final = row
        """One of the sessions."""
        self.need: Final = counted(row.request, times=row.cluster_size)
        """Amounts that quotas count."""
        self.quotas: Final = (
            quota_id(QuotaScope.USER, row.owner),
            quota_id(QuotaScope.PROJECT, row.project),
            quota_id(QuotaScope.CLUSTER),
        )
        self.part = 0
        """Part of its pool, in millionths."""
        self.pool = 0
        self.has_gpus = True
        self.milli = 0
        """Accelerators that all kernels take at least."""
        self.cores = 0
        self.estimate_ms = 0
        """Orders the queue."""
        self.running_ms: int | None = None
        """The estimate of a running session; None = nothing is predicted of it."""
        self.planned_us = 0
        """Backfill reserves by it."""
        self.work_ms = 0
        """Predicted work of one session, in milliseconds of the whole pool."""
        self.growth = 1.0
        """How much faster age counts because of the part of the pool; 1 = no faster."""
        self.fixed = 0
        """The part of the score that time does not change."""


class BucketColumns:
    """What exact scores read of buckets, in an array that has room for more of them."""

    def __init__(self) -> None:
        self.ints: IntArray = np.zeros((5, 16), dtype=np.int64)
        """[5, buckets or more] account, kind, pool, gain by width in millionths, fixed part of the score."""

    def write(self, bucket: Bucket) -> None:
        """Bring the columns of a bucket up to date."""
        number = bucket.number
        if number >= self.ints.shape[1]:
            self.ints = np.concatenate([self.ints, np.zeros_like(self.ints)], axis=1)
        self.ints[:, number] = bucket.account, bucket.kind, bucket.pool, width_gain(bucket.part), bucket.fixed


class FilledBuckets:
    """What rough scores read of the buckets that are not empty, without gaps, in any order."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._places: dict[int, int] = {}
        """By number."""
        self._floats: Floats = np.zeros((3, 16))
        """[3, buckets or more] submission of the first session, growth, fixed part of the score."""
        self._ints: IntArray = np.zeros((3, 16), dtype=np.int64)
        """[3, buckets or more] account, kind, pool."""

    def copy(self) -> "FilledBuckets":
        """An independent copy."""
        other = FilledBuckets()
        other.numbers, other._places = self.numbers.copy(), self._places.copy()
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        return other

    @property
    def floats(self) -> Floats:
        """[3, buckets] submission of the first session, growth, fixed part of the score."""
        return self._floats[:, : len(self.numbers)]

    @property
    def ints(self) -> IntArray:
        """[3, buckets] account, kind, pool."""
        return self._ints[:, : len(self.numbers)]

    def put(self, bucket: Bucket, queued_us: int) -> None:
        """Set when the first session of a bucket was submitted."""
        place = self._places.get(bucket.number)
        if place is not None:
            self._floats[0, place] = queued_us
            return
        place = self._places[bucket.number] = len(self.numbers)
        self.numbers.append(bucket.number)
        if place >= self._ints.shape[1]:
            self._floats = np.concatenate([self._floats, self._floats], axis=1)
            self._ints = np.concatenate([self._ints, self._ints], axis=1)
        self._floats[:, place] = queued_us, bucket.growth, bucket.fixed
        self._ints[:, place] = bucket.account, bucket.kind, bucket.pool

    def remove(self, bucket: Bucket) -> None:
        """Leave out a bucket that has become empty."""
        place, last = self._places.pop(bucket.number), self.numbers.pop()
        if last != bucket.number:
            self.numbers[place], self._places[last] = last, place
            self._floats[:, place] = self._floats[:, len(self.numbers)]
            self._ints[:, place] = self._ints[:, len(self.numbers)]

    def refresh(self, bucket: Bucket) -> None:
        """Bring the fixed part of the score up to date."""
        place = self._places.get(bucket.number)
        if place is not None:
            self._floats[2, place] = bucket.fixed


class Buckets:
    """All buckets met so far; only grows, and is shared by all futures."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, nodes: Nodes, names: AccountNames) -> None:
        self._policy = policy
        self._nodes = nodes
        self._names = names
        self._run_times = dict(snapshot.run_times)
        self._could_run = feasible_agents(snapshot, policy, cache=FeasibilityCache())
        self._kinds: dict[Kind, tuple[int, tuple[PlacementNeeds, ...]] | None] = {}
        self._by_key: dict[BucketKey, Bucket] = {}
        self._by_workload: dict[Workload, list[Bucket]] = {}
        self._columns: Final = BucketColumns()
        self.found: Final[list[Bucket]] = []
        self.samples: Final[dict[int, Bucket]] = {}
        """One bucket of each kind."""
        self._pools: Codes[PoolId] = Codes()

    def of(self, row: PendingRow) -> Bucket | None:
        """The bucket of a session; None if the open agents could not run it even if they were empty."""
        kind = kind_of(row)
        known = self._kinds.get(kind, False)
        if known is False:
            known = self._kinds[kind] = None if self._could_run(row) is not None else self._kind(row)
        if known is None or isinstance(known, bool):
            return None
        kept_ms = row.kept_ms if row.limit_ms is None else 0
        key = kind, row.priority, row.owner, row.project, row.workload, row.estimate_ms, row.limit_ms, kept_ms
        bucket = self._by_key.get(key)
        if bucket is None:
            account = self._names.of((row.project, row.owner))
            bucket = Bucket(len(self.found), row, kind=known[0], spots=known[1], account=account)
            self._by_key[key] = bucket
            self.found.append(bucket)
            self.samples.setdefault(bucket.kind, bucket)
            self._size(bucket)
            self._predict(bucket)
            if row.workload is not None:
                self._by_workload.setdefault(row.workload, []).append(bucket)
        return bucket

    @property
    def kinds(self) -> int:
        """Number of kinds, see `Queue`."""
        return len(self._kinds)

    def pool(self, name: PoolId) -> int:
        """The number of a pool."""
        return self._pools.of(name)

    def predict(self, changes: Mapping[Workload, RunTimes | None]) -> list[tuple[Bucket, int]]:
        """Go by other predictions from now on; returns the buckets that changed, with the work of a session before."""
        changed = []
        for workload, run_times in changes.items():
            if run_times is None:
                self._run_times.pop(workload, None)
            else:
                self._run_times[workload] = run_times
            for bucket in self._by_workload.get(workload, ()):
                changed.append((bucket, bucket.work_ms))
                self._predict(bucket)
        return changed

    def fixed_score(self, bucket: Bucket) -> int:
        """The part of the score that time does not change."""
        weights, row = self._policy.weights, bucket.row
        match self._policy.order:
            case "fair_share" | "relative_age":
                half_ms = weights.short_half_ms
                short = half_ms * PARTS_PER_ONE // (half_ms + min(bucket.estimate_ms, DURATION_MAX_MS))
                return weights.short * short + weights.priority * (row.priority - Priority.LOW) * PARTS_PER_ONE
            case "priority":
                return row.priority * (weights.level_ms * 1000)
            case "sjf":
                return -min(bucket.estimate_ms, DURATION_MAX_MS) * 100
        return 0

    def columns(self) -> "BucketColumns":
        """What scores read of all buckets."""
        return self._columns

    def _kind(self, row: PendingRow) -> tuple[int, tuple[PlacementNeeds, ...]]:
        wheres = [*preferred(row.where, agent_index=self._nodes.index), row.where]
        return len(self._kinds), tuple(self._nodes.spot(replace(row, where=where)) for where in wheres)

    def _size(self, bucket: Bucket) -> None:
        queue = Queue.of([bucket.row])
        bucket.pool = self.pool(bucket.row.where.pool)
        bucket.part = int(parts_of_pools(queue, self._nodes.index)[0])
        bucket.growth = 1 + width_gain(bucket.part) / PARTS_OF_POOL
        bucket.milli = int(queue.column(LEAST_MILLI)[0])
        bucket.has_gpus = bucket.milli > 0
        bucket.cores = dict(bucket.row.request).get(CPU, 0) * bucket.row.cluster_size

    def _predict(self, bucket: Bucket) -> None:
        """Set what follows from the expected run time, as `expected_ends` does."""
        row = bucket.row
        found = None if row.workload is None else self._run_times.get(row.workload)
        expected = row.estimate_ms if row.estimate_ms is not None else None if found is None else found.mean_ms
        bucket.running_ms = row.limit_ms if expected is None else expected
        bucket.estimate_ms = ESTIMATE_MS_UNKNOWN if bucket.running_ms is None else bucket.running_ms
        bucket.planned_us = 1000 * planned_duration_ms(
            estimate_ms=row.estimate_ms,
            median_ms=None if found is None else found.median_ms,
            limit_ms=row.limit_ms,
            policy=self._policy,
            pool=row.where.pool,
            kept_ms=row.kept_ms,
        )
        bucket.work_ms = min(bucket.estimate_ms, BACKLOG_MS_MAX) * bucket.part // PARTS_OF_POOL
        bucket.fixed = self.fixed_score(bucket)
        self._columns.write(bucket)


class WaitingTasks(NamedTuple):
    """A job array in the queue. Its tasks are equal sessions at one place; the one with the lowest index is next."""

    row: PendingRow
    started: int
    """How many of the row's tasks have started since."""
    startable: int
    """How many more may start beside the active ones."""

    def left(self) -> PendingRow:
        """The row with the tasks that are left."""
        assert self.row.tasks is not None, "a job array has tasks"
        tasks = Intervals.of(list(self.row.tasks)[self.started :])
        return replace(self.row, tasks=tasks, tasks_startable=self.startable)


class Waiting:
    """The waiting sessions of all buckets in one simulated future."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._rows: list[list[Place]] = []
        self._names: dict[SessionId, int] = {}
        self._arrays: dict[SessionId, WaitingTasks] = {}
        self._sessions: list[int] = []
        """[buckets] number of sessions; each task of a job array counts as one."""
        self.filled = FilledBuckets()
        self.by_kind: Final[list[int]] = []
        """Number of rows of each kind."""
        self.work_ms: Final[dict[tuple[int, bool], int]] = {}
        """Predicted work by pool, with and without accelerators."""
        self._oldest_us, self._newest_us = LAST_US, 0

    def is_past(self, now_us: int) -> bool:
        """Whether all were submitted before now, and not so long ago that orders no longer tell their ages apart."""
        return self._newest_us <= now_us <= self._oldest_us + 1000 * DURATION_MAX_MS

    def copy(self) -> "Waiting":
        """An independent copy."""
        other = Waiting(self._buckets)
        other._rows = [rows.copy() for rows in self._rows]
        other._names, other._arrays = self._names.copy(), self._arrays.copy()
        other._sessions = self._sessions.copy()
        other.filled = self.filled.copy()
        other.by_kind.extend(self.by_kind)
        other.work_ms.update(self.work_ms)
        other._oldest_us, other._newest_us = self._oldest_us, self._newest_us
        return other

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: SessionId) -> bool:
        return name in self._names

    def join(self, bucket: Bucket, row: PendingRow) -> None:
        """Add a session or a job array."""
        number, name = bucket.number, row.session_id
        while len(self._rows) <= number:
            self._rows.append([])
            self._sessions.append(0)
        insort(self._rows[number], (row.queued_us, name))
        self._oldest_us = min(self._oldest_us, row.queued_us)
        self._newest_us = max(self._newest_us, row.queued_us)
        self._names[name] = number
        if row.tasks is not None:
            self._arrays[name] = WaitingTasks(row, 0, row.tasks_startable)
        self._count(bucket, 1)
        self._add_work(bucket, self._sessions_of(name))

    def leave(self, name: SessionId) -> Bucket:
        """Remove a session, or what is left of a job array; returns its bucket."""
        number = self._names.pop(name)
        rows, bucket = self._rows[number], self._buckets.found[number]
        del rows[next(index for index, place in enumerate(rows) if place[1] == name)]
        self._count(bucket, -1)
        self._add_work(bucket, -self._sessions_of(name))
        self._arrays.pop(name, None)
        return bucket

    def start(self, bucket: Bucket) -> tuple[SessionId, int | None]:
        """Remove the first session of a bucket, or the next task of its first job array; returns id and index."""
        name = self._rows[bucket.number][0][1]
        array = self._arrays.get(name)
        if array is None or array.row.tasks is None:
            del self._rows[bucket.number][0], self._names[name]
            self._count(bucket, -1)
            self._add_work(bucket, -1)
            return name, None
        index = array.row.tasks.nth(array.started)
        self._arrays[name] = array._replace(started=array.started + 1, startable=array.startable - 1)
        self._add_work(bucket, -1)
        if not self._sessions_of(name):
            self.leave(name)
        return name, index

    def array(self, name: SessionId) -> WaitingTasks | None:
        """A job array; None if no task of it waits here."""
        return self._arrays.get(name)

    def allow(self, name: SessionId) -> None:
        """Let one more task of a job array start."""
        array = self._arrays[name]
        self._arrays[name] = array._replace(startable=min(array.startable + 1, self._sessions_of(name)))

    def first(self, number: int) -> Place | None:
        """The first session of a bucket."""
        rows = self._rows[number]
        return rows[0] if rows else None

    def update_work(self, bucket: Bucket, *, was_ms: int) -> None:
        """Count the work of a bucket anew after its prediction changed."""
        self.filled.refresh(bucket)
        if bucket.number < len(self._rows):
            key = bucket.pool, bucket.has_gpus
            more = (bucket.work_ms - was_ms) * self._sessions[bucket.number]
            self.work_ms[key] = self.work_ms.get(key, 0) + more

    def _sessions_of(self, name: SessionId) -> int:
        """Number of tasks of a job array that wait; 1 for another session."""
        array = self._arrays.get(name)
        return 1 if array is None or array.row.tasks is None else len(array.row.tasks) - array.started

    def _count(self, bucket: Bucket, change: int) -> None:
        rows = self._rows[bucket.number]
        if rows:
            self.filled.put(bucket, rows[0][0])
        else:
            self.filled.remove(bucket)
        while len(self.by_kind) <= bucket.kind:
            self.by_kind.append(0)
        self.by_kind[bucket.kind] += change

    def _add_work(self, bucket: Bucket, sessions: int) -> None:
        key = bucket.pool, bucket.has_gpus
        self._sessions[bucket.number] += sessions
        self.work_ms[key] = self.work_ms.get(key, 0) + sessions * bucket.work_ms


def is_limited(row: PendingRow) -> bool:
    """Whether a row is a job array that may run only some of its tasks at once."""
    return row.tasks is not None and row.tasks_startable < len(row.tasks)


def with_task_ended(row: PendingRow) -> PendingRow:
    """The row of a limited job array after an active task has ended: one more may start."""
    waiting = 1 if row.tasks is None else len(row.tasks)
    return replace(row, tasks_startable=min(row.tasks_startable + 1, waiting))


def array_of(name: SessionId) -> SessionId | None:
    """The job array of a task; None for any other session."""
    array_id, index = task_parts(name)
    return None if index is None else array_id
