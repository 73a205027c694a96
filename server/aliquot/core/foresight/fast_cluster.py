"""Fast cluster: a simulated cluster whose passes decide as `decide` does, on buckets and node states.

A pass first asks for which kinds of sessions there is room at all; if there is none, it is over. Otherwise it scores
the first session of every bucket and walks through them in order: those without room are blocked, the first of them
gets the reservation, and the others start at once or beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Final

from msgspec.structs import replace

from aliquot.core import fairshare
from aliquot.core.foresight.accounts import AccountNames, AccountUsage
from aliquot.core.foresight.bucket_walk import BucketScores, BucketWalk
from aliquot.core.foresight.buckets import Bucket, Buckets, Waiting, array_of, is_limited, with_task_ended
from aliquot.core.foresight.decided_cluster import PassResult, SessionStart
from aliquot.core.foresight.dependencies import Dependencies
from aliquot.core.foresight.node_capacity import NodeCapacity, Nodes, SessionParts
from aliquot.core.foresight.running import Peaks, RunningSession, RunningSet
from aliquot.core.foresight.window import Window, reserve
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue, is_plain
from aliquot.core.model.snapshot import PendingRow, Request, RunningRow, Snapshot
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.quota import counted_in, limits, quota_ids_for
from aliquot.core.scheduler.backlog import AGE_UNIT_MS_MIN, NO_SIZE, PARTS_OF_POOL, RunningWork
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.eligibility import filter_eligible
from aliquot.core.scheduler.feasibility import FeasibilityCache
from aliquot.core.scheduler.ordering import AGED
from aliquot_schema.ids import QuotaId, SessionId, SlotName, task_id
from aliquot_schema.policies import Backfill
from aliquot_schema.states import SessionState


class SimulationContext:
    """What is the same in all simulated futures of one snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, seed: int) -> None:
        """The state is supported, see `engine.unsupported`."""
        cache = PassCache()
        index = cache.agent_index(snapshot.agents)
        self.policy: Final = policy
        self.snapshot: Final = snapshot
        self.nodes: Final = Nodes(snapshot, policy, cache=cache, seed=seed)
        self.names: Final = AccountNames(snapshot.quotas)
        self.buckets: Final = Buckets(snapshot, policy, nodes=self.nodes, names=self.names)
        self.limits: Final = {name: limits(quota.max_slots) for name, quota in snapshot.quotas.items()}
        self.sizes: Final = index.sizes
        self.agents: Final = index.by_id
        self.work: Final = RunningWork(snapshot.running, index=index)
        self.feasibility: Final = FeasibilityCache()

    def part(self, bucket: Bucket, milli: int) -> int:
        """The part of its pool that a session of a bucket holds, in millionths; see `backlog.RunningWork`."""
        size = self.sizes.get(bucket.row.where.pool, NO_SIZE)
        if milli:
            return milli * PARTS_OF_POOL // max(size.milli, milli)
        return bucket.cores * PARTS_OF_POOL // max(size.cores, bucket.cores, 1)


class FastCluster:
    """The state of one simulated future."""

    def __init__(self, context: SimulationContext) -> None:
        snapshot, buckets = context.snapshot, context.buckets
        self._context = context
        self._capacity = NodeCapacity(context.nodes, context.nodes.states(snapshot.used))
        self._accounts = AccountUsage(context.names, snapshot.usage)
        self._waiting = Waiting(buckets)
        self._apart: dict[SessionId, PendingRow] = {}
        """Rows in the queue that are not eligible."""
        self._is_checked = False
        """Whether it is known which of them are still not eligible."""
        self._dependencies = Dependencies(
            snapshot.dependencies, queue=(), running=snapshot.running, array_ends=snapshot.array_ends
        )
        self._limited: set[SessionId] = set()
        """Job arrays that may run only some of their tasks at once."""
        self._in_pool: dict[int, int] = {}
        """Number of rows in the queue, by pool."""
        self._running = RunningSet()
        self._held: dict[QuotaId, dict[SlotName, int]] = {name: {} for name in context.limits}
        self._placed: dict[int, tuple[int, SessionParts | None]] = {}
        """By kind: where it fits, and the version of the capacity that this holds for."""
        self._room: dict[int, tuple[int, bool]] = {}
        """By kind: whether there may be room for it if enough accelerators are free in total, and the version of the
        capacity that this holds for."""
        self._peaks = Peaks({buckets.pool(name): peak for name, peak in snapshot.backlogs.items()})
        self._wake_us: int | None = None
        """When a row becomes eligible by the clock alone; None = never."""
        for place, row in enumerate(snapshot.running):
            self._add_running(row, place)
        for pending in snapshot.queue:
            self.join(pending)

    def copy(self) -> "FastCluster":
        """An independent copy."""
        other = copy(self)
        other._capacity, other._accounts = self._capacity.copy(), self._accounts.copy()
        other._waiting, other._running = self._waiting.copy(), self._running.copy()
        other._apart, other._dependencies = self._apart.copy(), self._dependencies.copy()
        other._limited = self._limited.copy()
        other._in_pool, other._placed, other._room = self._in_pool.copy(), {}, {}
        other._held = {name: held.copy() for name, held in self._held.items()}
        other._peaks = self._peaks.copy()
        return other

    @property
    def waiting(self) -> int:
        """Number of rows in the queue."""
        return len(self._waiting) + len(self._apart)

    def __contains__(self, name: SessionId) -> bool:
        """Whether a row is in the queue."""
        return name in self._waiting or name in self._apart

    def join(self, row: PendingRow) -> None:
        pool = self._context.buckets.pool(row.where.pool)
        self._in_pool[pool] = self._in_pool.get(pool, 0) + 1
        self._accounts.wait(self._context.names.of((row.project, row.owner)), 1)
        self._dependencies.join(row)
        if is_limited(row):
            self._limited.add(row.session_id)
        bucket = self._context.buckets.of(row)
        if bucket is None or not is_plain(row):
            self._apart[row.session_id] = row
            # Even a row that can never run may have a start time to wake up for, or fail by a dependency.
            self._is_checked = self._is_checked and is_plain(row)
        else:
            self._waiting.join(bucket, row)

    def leave(self, name: SessionId) -> bool:
        if name in self._apart:
            row, self._is_checked = self._apart.pop(name), False
        elif name in self._waiting:
            row = self._waiting.leave(name).row
        else:
            return False
        self._left(row)
        self._allow_task(array_of(name))
        self._resolve(name, SessionState.CANCELED)
        return True

    def end(self, run_id: SessionId, *, now_us: int) -> None:
        session = self._running.remove(run_id)
        self._capacity.release(session.parts)
        self._accounts.hold(session.account, -session.rate_milli, now_us=now_us)
        self._count(session, -1)
        self._resolve(run_id, SessionState.COMPLETED)
        self._allow_task(session.array_id)

    def evict(self, run_id: SessionId, *, ends_us: int) -> None:
        raise AssertionError(f"{run_id} is preempted by {ends_us}, and this cluster never preempts")

    def predict(self, changes: Mapping[Workload, RunTimes | None]) -> None:
        for bucket, was_ms in self._context.buckets.predict(changes):
            self._waiting.update_work(bucket, was_ms=was_ms)

    def mix(self, asked: Mapping[Request, int]) -> None:
        if self._context.nodes.mix(asked):
            self._capacity.forget_scores()
            self._placed.clear()
            self._room.clear()

    def run(self, now_us: int) -> PassResult:
        failed = self._check_apart(now_us)
        units = self._units(now_us)
        rooms = self._rooms() if len(self._waiting) else []
        starts = self._start_all(now_us, units, rooms) if any(rooms) else []
        for name in failed:
            self._left(self._apart.pop(name))
            self._resolve(name, SessionState.FAILED)
        return PassResult(starts, failures=failed, wake_us=self._wake_us)

    def _check_apart(self, now_us: int) -> list[SessionId]:
        """Move rows that have become eligible to their buckets; returns those that can never start."""
        is_due = self._wake_us is not None and now_us >= self._wake_us
        if self._is_checked and not is_due:
            return []
        context, queue = self._context, Queue.of(self._apart.values())
        state = replace(context.snapshot, queue=queue, dependencies=self._dependencies.states)
        found = filter_eligible(state, context.policy, queue=queue, now_us=now_us, cache=context.feasibility)
        for row, is_ready in zip(queue, found.ready.tolist(), strict=True):
            bucket = context.buckets.of(row)
            if is_ready and bucket is not None:
                del self._apart[row.session_id]
                self._waiting.join(bucket, row)
        self._is_checked, self._wake_us = True, found.wake_at_us
        return list(found.failures)

    def _units(self, now_us: int) -> list[int]:
        """[pools] the unit of age; peaks are kept."""
        if self._context.policy.order not in AGED:
            return []
        units = [AGE_UNIT_MS_MIN] * (max(self._in_pool, default=-1) + 1)
        for pool, count in self._in_pool.items():
            if count:
                work_ms = self._waiting.work_ms
                units[pool] += self._peaks.backlog_ms(pool, waiting_ms=work_ms, running=self._running, now_us=now_us)
        return units

    def _rooms(self) -> list[bool]:
        """[kinds] whether there may be room for a waiting session of the kind; False for kinds that do not wait."""
        capacity, samples, known = self._capacity, self._context.buckets.samples, self._room
        version, free_milli = len(capacity.log), capacity.free_milli()
        found = []
        for kind, count in enumerate(self._waiting.by_kind):
            if not count or samples[kind].milli > free_milli:
                found.append(False)
                continue
            room = known.get(kind)
            if room is None or room[0] != version:
                room = known[kind] = version, any(map(capacity.has_room, samples[kind].spots))
            found.append(room[1])
        return found

    def _fitting(self, kind: int) -> SessionParts | None:
        """Where a session of a kind fits now."""
        version = len(self._capacity.log)
        known = self._placed.get(kind)
        if known is None or known[0] != version:
            known = self._placed[kind] = version, self._place(kind)
        return known[1]

    def _place(self, kind: int) -> SessionParts | None:
        sample = self._context.buckets.samples[kind]
        if sample.milli > self._capacity.free_milli():
            return None
        return next((found for spot in sample.spots if (found := self._capacity.place(spot)) is not None), None)

    def _start_all(self, now_us: int, units: Sequence[int], rooms: Sequence[bool]) -> list[SessionStart]:
        buckets, waiting, scores = self._context.buckets, self._waiting, self._scores(units, now_us)
        is_open = {kind for kind, has_room in enumerate(rooms) if has_room}
        """Kinds of which a session may still start; the walk is over without them."""
        has_quotas, is_one_pool = bool(self._context.limits), sum(map(bool, self._in_pool.values())) <= 1
        walk = BucketWalk(
            buckets, waiting, scores=scores, rooms=None if has_quotas else rooms, is_whole=not is_one_pool
        )
        started: list[tuple[Bucket, RunningSession, bool]] = []
        """Sessions, and whether their rows have left the queue."""
        blocked: dict[int, list[Bucket]] = {}
        """By pool; those up to the one with the reservation are taken out."""
        dropped: set[int] = set()
        """Kinds without room."""
        outlasting: set[int] = set()
        """Kinds with room only for sessions that end before the window of their pool does."""
        windows: dict[int, Window] = {}
        """By pool."""
        is_in_order = self._context.policy.backfill is Backfill.NONE
        while is_open and (bucket := walk.next()) is not None:
            kind, pool = bucket.kind, bucket.pool
            if kind in dropped or (is_in_order and pool in blocked) or (has_quotas and self._is_refused(bucket)):
                continue
            window = windows.get(pool)
            outlasts = window is None or now_us + bucket.planned_us > window.at_us
            if kind in outlasting and outlasts:
                continue
            placed = self._fitting(kind) if kind in is_open else None
            if placed is None:
                dropped.add(kind)
                is_open = set() if is_in_order and is_one_pool else is_open - {kind}
                blocked.setdefault(pool, []).append(bucket)
                continue
            if window is None and blocked.get(pool):
                window = self._first_window(blocked[pool], now_us, is_whole=walk.is_whole)
                if window is not None:
                    windows[pool] = window
                elif not walk.is_whole:
                    walk = BucketWalk(buckets, waiting, scores=scores, rooms=rooms, is_whole=True)
                    dropped.clear()
                    continue
                outlasts = window is not None and now_us + bucket.planned_us > window.at_us
            if window is not None and outlasts and (placed := window.place(bucket.spots[-1], placed)) is None:
                outlasting.add(kind)
                continue
            session = self._start_grown(bucket, placed, window, outlasts=outlasts, now_us=now_us)
            started.append((bucket, session, session.queue_id not in self))
            walk.started(bucket)
            free_milli = self._capacity.free_milli()
            is_open = {kind for kind in is_open if buckets.samples[kind].milli <= free_milli}
        self._charge(started, now_us=now_us)
        return [SessionStart(session.queue_id, session.name, session.milli) for _, session, _ in started]

    def _scores(self, units: Sequence[int], now_us: int) -> BucketScores:
        buckets, waiting, policy = self._context.buckets, self._waiting, self._context.policy
        return BucketScores(
            buckets,
            waiting,
            self._accounts,
            order=policy.order,
            weights=policy.weights,
            units=units,
            now_us=now_us,
        )

    def _charge(self, started: Iterable[tuple[Bucket, RunningSession, bool]], *, now_us: int) -> None:
        """Charge accounts for started sessions; done after the pass, as its order goes by usage before it."""
        for bucket, session, is_gone in started:
            if is_gone:
                self._in_pool[bucket.pool] -= 1
                self._accounts.wait(bucket.account, -1)
                self._dependencies.start_last(session.queue_id)
            self._accounts.hold(session.account, session.rate_milli, now_us=now_us)

    def _first_window(self, blocked: list[Bucket], now_us: int, *, is_whole: bool) -> Window | None:
        """The reservation of the first of the blocked buckets that can get one; those up to it are taken out.

        Args:
            is_whole: whether none was left out behind the first one. If some were, only the first one is tried.
        """
        window = None
        while window is None and blocked:
            window = self._reserve(blocked.pop(0), now_us)
            if not is_whole:
                blocked.clear()
        return window

    def _reserve(self, bucket: Bucket, now_us: int) -> Window | None:
        return reserve(
            bucket.spots[-1],
            milli=bucket.milli,
            now=self._capacity,
            running=self._running,
            nodes=self._context.nodes,
            now_us=now_us,
        )

    def _is_refused(self, bucket: Bucket) -> bool:
        """Whether a quota keeps a session from starting."""
        for name in bucket.quotas:
            most = self._context.limits.get(name)
            if most:
                held = self._held[name]
                if any(slot in most and held.get(slot, 0) + more > most[slot] for slot, more in bucket.need.items()):
                    return True
        return False

    def _start_grown(
        self, bucket: Bucket, placed: SessionParts, window: Window | None, *, outlasts: bool, now_us: int
    ) -> RunningSession:
        """Start the first session of a bucket; `window` is that of its pool."""
        sized, placed = self._grown(bucket, placed, window=window if outlasts else None)
        session = self._start(bucket, placed, sized=sized, now_us=now_us)
        if window is not None:
            window.take(placed.parts, outlasts=outlasts)
        return session

    def _grown(self, bucket: Bucket, placed: SessionParts, *, window: Window | None) -> tuple[Bucket, SessionParts]:
        """The first session of a bucket with as many kernels as fit and its quotas allow; only elastic gangs grow.

        Args:
            window: beside whose head it has to fit; None = all that is free may be used.
        """
        row = bucket.row
        for size in range(row.kernels_max or 0, row.cluster_size, -1):
            sized = self._context.buckets.of(replace(row, cluster_size=size, kernels_max=None))
            if sized is None or sized.milli > self._capacity.free_milli() or self._is_refused(sized):
                continue
            place = self._capacity.place if window is None else window.beside
            found = next((found for spot in sized.spots if (found := place(spot)) is not None), None)
            if found is not None:
                return sized, found
        return bucket, placed

    def _start(self, bucket: Bucket, placed: SessionParts, *, sized: Bucket, now_us: int) -> RunningSession:
        """Start the first session of a bucket; `sized` has what it needs with the kernels that it gets."""
        name, index = self._waiting.start(bucket)
        array = self._waiting.array(name)
        if array is not None and not array.startable:
            self._apart[name] = array.left()
            self._waiting.leave(name)
        self._capacity.take(placed.parts)
        session = RunningSession(
            name if index is None else task_id(name, index=index),
            ends_us=now_us + bucket.planned_us,
            parts=placed.parts,
            milli=placed.milli,
            rate_milli=placed.rate_milli,
            account=bucket.account,
            group=(bucket.pool, placed.milli > 0),
            part=self._context.part(sized, placed.milli),
            started_us=now_us,
            estimate_ms=bucket.running_ms,
            need=sized.need,
            quotas=bucket.quotas,
            array_id=array_of(name) if index is None else name,
            queue_id=name,
        )
        self._running.add(session, now_us=now_us)
        self._dependencies.start(session.name, session.array_id)
        self._count(session, 1)
        return session

    def _allow_task(self, name: SessionId | None) -> None:
        """Let one more task of a limited job array start, if any is left."""
        if name is None or name not in self._limited:
            return
        row = self._apart.get(name)
        if row is not None:
            self._apart[name], self._is_checked = with_task_ended(row), False
        elif name in self._waiting:
            self._waiting.allow(name)

    def _left(self, row: PendingRow) -> None:
        """Count a row that has left the queue."""
        self._in_pool[self._context.buckets.pool(row.where.pool)] -= 1
        self._accounts.wait(self._context.names.of((row.project, row.owner)), -1)

    def _count(self, session: RunningSession, sign: int) -> None:
        """Count what a session holds under quotas."""
        for name in session.quotas if self._held else ():
            if name in self._held:
                held = self._held[name]
                for slot, amount in session.need.items():
                    held[slot] = held.get(slot, 0) + sign * amount

    def _resolve(self, name: SessionId, state: SessionState) -> None:
        """Note the end of a session that others may depend on."""
        if self._dependencies.end(name, state):
            self._is_checked = False

    def _add_running(self, row: RunningRow, place: int) -> None:
        context, work = self._context, self._context.work
        rate_milli = 0
        for kernel in row.kernels:
            agent = context.agents.get(kernel.agent_id)
            devices = agent.layout.devices if agent is not None else {}
            rate_milli += fairshare.rate_milli(kernel.spec, devices=devices, charges=context.policy.charges)
        session = RunningSession(
            row.session_id,
            ends_us=row.ends_us,
            parts=context.nodes.parts(row.kernels),
            milli=row.milli,
            rate_milli=rate_milli,
            account=context.names.of((row.project, row.owner)),
            group=(context.buckets.pool(work.pools[int(work.pool[place])]), row.milli > 0),
            part=int(work.parts[place]),
            started_us=row.started_us,
            estimate_ms=row.estimate_ms,
            need=counted_in(row.kernels),
            quotas=quota_ids_for(row.owner, row.project),
            is_leaving=row.is_leaving,
            array_id=row.array_id,
        )
        self._running.add(session, now_us=0 if row.started_us is None else row.started_us)
        self._count(session, 1)
