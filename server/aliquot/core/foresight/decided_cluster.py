"""Decided cluster: a simulated cluster whose passes are those of `decide` itself; runs every state and every policy."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from aliquot.core import fairshare
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on, removed
from aliquot.core.billing.budgets import Budgets
from aliquot.core.foresight.buckets import array_of, is_limited, with_task_ended
from aliquot.core.foresight.dependencies import Dependencies
from aliquot.core.model.plan import Eviction, Placement
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, RunningRow, Snapshot, held_milli
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.scheduler.bookings import bookings_after
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import planned_duration_ms
from aliquot_schema.ids import NodeId, QuotaId, SessionId
from aliquot_schema.intervals import Intervals
from aliquot_schema.quotas import Quota
from aliquot_schema.states import SessionState


class SessionStart(NamedTuple):
    """A session that starts in a pass."""

    name: SessionId
    run_id: SessionId
    """Its id while it runs: that of the task, for a job array."""
    milli: int
    """Accelerators."""


@dataclass(slots=True)
class PassResult:
    """What a pass decided."""

    starts: Sequence[SessionStart] = ()
    evictions: Sequence[Eviction] = ()
    failures: Sequence[SessionId] = ()
    """Sessions that have left the queue, as they can never start."""
    wake_us: int | None = None
    """When the next pass is due even if nothing happens; None = never."""


class Cluster(Protocol):
    """A simulated cluster: the state that passes decide on, changed by the events between them."""

    def join(self, row: PendingRow) -> None:
        """Add a session to the queue."""

    def leave(self, name: SessionId) -> bool:
        """Remove a session from the queue unstarted; False if it is not there."""

    def end(self, run_id: SessionId, *, now_us: int) -> None:
        """Release the devices of a running session."""

    def evict(self, run_id: SessionId, *, ends_us: int) -> None:
        """Count a preempted session as leaving; it ends by then."""

    def predict(self, changes: Mapping[Workload, RunTimes | None]) -> None:
        """Go by other predictions for some workloads from now on; None = not known."""

    def mix(self, asked: Mapping[Request, int]) -> None:
        """Place for another mix of requests from now on; a mapping is never changed in place."""

    def run(self, now_us: int) -> PassResult:
        """Run a pass and start what it decides to start."""

    def copy(self) -> "Cluster":
        """An independent copy."""


class DecidedCluster:
    """See the module."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, seed: int, starts_late: bool = False) -> None:
        """
        Args:
            starts_late: whether sessions run only from an `update` that says so, some time after their grant.
        """
        self._starts_late = starts_late
        self._snapshot = replace(snapshot, queue=())
        self._queue = Queue.of(snapshot.queue)
        self._policy = policy
        self._seed = seed
        self._layouts = {agent.id: agent.layout for agent in snapshot.agents}
        self._rows = {row.session_id: row for row in self._queue}
        # Growth is not foreseen: what a gang does after a restart is not known.
        self._running = {row.session_id: replace(row, elastic=None) for row in snapshot.running}
        self._used: dict[NodeId, Occupancy] = dict(snapshot.used)
        self._usage = snapshot.usage
        self._dependencies = Dependencies(
            snapshot.dependencies, queue=self._queue, running=snapshot.running, array_ends=snapshot.array_ends
        )
        self._limited = {row.session_id for row in self._queue if is_limited(row)}
        """Job arrays that may run only some of their tasks at once."""
        self._preemptions = Counter({row.session_id: row.preemptions for row in snapshot.running})
        self._known = PassCache()

    def copy(self) -> "DecidedCluster":
        other = copy(self)
        other._rows, other._running, other._used = self._rows.copy(), self._running.copy(), self._used.copy()
        other._dependencies, other._preemptions = self._dependencies.copy(), self._preemptions.copy()
        other._limited, other._known = self._limited.copy(), PassCache()
        return other

    def join(self, row: PendingRow) -> None:
        self._rows[row.session_id] = row
        self._dependencies.join(row)
        self._queue = self._queue.changed(joined=[row])
        if is_limited(row):
            self._limited.add(row.session_id)

    def leave(self, name: SessionId) -> bool:
        row = self._rows.get(name)
        if row is not None:
            self._remove([row])
            self._allow_task(array_of(name))
            self._dependencies.end(name, SessionState.CANCELED)
        return row is not None

    def end(self, run_id: SessionId, *, now_us: int, state: SessionState = SessionState.COMPLETED) -> None:
        """See `Cluster`.

        Args:
            state: what sessions that depend on it see; a task that is queued again keeps its place in its array.
        """
        if state is not SessionState.QUEUED:
            self.update(run_id, lambda row: replace(row, array_id=None))
            self._dependencies.end(run_id, state)
        row = self._running.pop(run_id)
        self._hold(row, sign=-1, now_us=now_us)

    def release(self, run_id: SessionId, ranks: Collection[int], *, now_us: int) -> int:
        """Release the devices of some kernels of a running session; returns the milli of accelerators that it keeps."""
        row = self._running[run_id]
        gone = tuple(kernel for kernel in row.kernels if kernel.rank in ranks)
        left = tuple(kernel for kernel in row.kernels if kernel.rank not in ranks)
        self._hold(replace(row, kernels=gone), sign=-1, now_us=now_us)
        agents = {agent.id: agent for agent in self._snapshot.agents}
        milli = held_milli(left, agents=agents)
        self._running[run_id] = replace(row, kernels=left, milli=milli)
        return milli

    def update(self, run_id: SessionId, change: Callable[[RunningRow], RunningRow]) -> None:
        """Change what is known of a running session, but not what it holds. A task that has ended has no `array_id`."""
        before, after = self._running[run_id], change(self._running[run_id])
        self._running[run_id] = after
        if after.array_id is None:
            self._allow_task(before.array_id)

    def swap(self, row: PendingRow) -> None:
        """Replace a waiting session's row; no effect if it does not wait. The tasks of a job array stay as they are."""
        known = self._rows.get(row.session_id)
        if known is not None:
            startable = row.tasks_startable if known.tasks is None else min(row.tasks_startable, len(known.tasks))
            self._replace(known, replace(row, tasks=known.tasks, tasks_startable=startable))

    def set_context(
        self,
        *,
        agents: tuple[AgentRow, ...],
        quotas: Mapping[QuotaId, Quota],
        policy: Policy,
        dependencies: Mapping[SessionId, SessionState],
    ) -> None:
        """Go by other agents, quotas, policy and states of dependencies from now on."""
        self._layouts.update((agent.id, agent.layout) for agent in agents)
        self._snapshot = replace(self._snapshot, agents=agents, quotas=quotas)
        self._dependencies.replace(dependencies, queue=self._queue, running=self._running.values())
        if policy is not self._policy:
            self._policy, self._known = policy, PassCache()
            self._usage = replace(self._usage, half_life_ms=policy.half_life_ms)

    def occupy(self, more: Mapping[NodeId, Occupancy], *, less: Mapping[NodeId, Occupancy]) -> None:
        """Count devices as held that no session holds.

        Args:
            less: what was counted so far, and is no longer.
        """
        for node_id in {**less, **more}:
            kept = removed(self._used.get(node_id, {}), less.get(node_id, {}))
            self._used[node_id] = added(kept, more.get(node_id, {}))

    def evict(self, run_id: SessionId, *, ends_us: int) -> None:
        self._running[run_id] = replace(self._running[run_id], ends_us=ends_us, is_leaving=True)
        self._preemptions[run_id] += 1

    def predict(self, changes: Mapping[Workload, RunTimes | None]) -> None:
        if changes:
            found = {**self._snapshot.run_times, **changes}
            known = {workload: times for workload, times in found.items() if times is not None}
            self._snapshot = replace(self._snapshot, run_times=known)

    def mix(self, asked: Mapping[Request, int]) -> None:
        self._snapshot = replace(self._snapshot, asked=asked)

    def snapshot(self) -> Snapshot:
        """What the next pass sees."""
        return replace(
            self._snapshot,
            used=self._used.copy(),
            queue=self._queue,
            running=tuple(self._running.values()),
            usage=self._usage,
            dependencies=self._dependencies.states.copy(),
        )

    def run(self, now_us: int, *, outdated: Collection[SessionId] = ()) -> PassResult:
        """See `Cluster`.

        Args:
            outdated: sessions, or tasks, whose decisions are not carried out.
        """
        state = self.snapshot()
        plan = decide(state, self._policy, now_us=now_us, seed=self._seed, known=self._known, explains=False)
        if outdated:
            plan = replace(
                plan,
                placements=tuple(one for one in plan.placements if one.run_id not in outdated),
                evictions=tuple(one for one in plan.evictions if one.session_id not in outdated),
            )
        self._snapshot = replace(
            self._snapshot,
            backlogs={**self._snapshot.backlogs, **plan.backlogs},
            bookings=bookings_after(state, plan, now_us=now_us),
        )
        starts = [self._start(placement, now_us=now_us) for placement in plan.placements]
        self._drop_started(plan.placements)
        self._remove([self._rows[name] for name in plan.failures])
        for name in plan.failures:
            self._dependencies.end(name, SessionState.FAILED)
        wake_us = plan.wake_at_us if plan.wake_at_us is not None and plan.wake_at_us > now_us else None
        if plan.evictions:
            # A server runs a pass right after one that preempts: it may preempt for the session that is first then.
            wake_us = now_us + 1
        return PassResult(starts, plan.evictions, tuple(plan.failures), wake_us)

    def _start(self, placement: Placement, *, now_us: int) -> SessionStart:
        row, index = self._rows[placement.session_id], placement.index
        found = None if row.workload is None else self._snapshot.run_times.get(row.workload)
        planned_ms = planned_duration_ms(
            estimate_ms=row.estimate_ms,
            median_ms=None if found is None else found.median_ms,
            limit_ms=row.limit_ms,
            policy=self._policy,
            pool=row.where.pool,
            kept_ms=row.kept_ms,
        )
        expected_ms = row.estimate_ms if row.estimate_ms is not None else None if found is None else found.mean_ms
        run_id = placement.run_id
        running = replace(
            RunningRow.of(run_id, placement.kernels, ends_us=now_us + planned_ms * 1000, agents=self._snapshot.agents),
            version=row.version,
            owner=row.owner,
            project=row.project,
            priority=row.priority,
            granted_us=now_us,
            started_us=None if self._starts_late else now_us,
            estimate_ms=row.limit_ms if expected_ms is None else expected_ms,
            is_preemptible=row.is_preemptible,
            preemptions=self._preemptions[run_id],
            kept_ms=row.kept_ms,
            checkpoint_ms=row.checkpoint_ms,
            array_id=array_of(run_id) if index is None else row.session_id,
            booking=row.booking,
            limit_us=None if row.limit_ms is None else now_us + 1000 * row.limit_ms,
            key_id=row.key_id,
        )
        self._running[run_id] = running
        self._dependencies.start(run_id, running.array_id)
        self._hold(running, sign=1, now_us=now_us)
        return SessionStart(row.session_id, run_id, running.milli)

    def _drop_started(self, placements: Sequence[Placement]) -> None:
        """Take started sessions, and started tasks of arrays, from the queue."""
        started: dict[SessionId, list[int]] = {}
        for placement in placements:
            indices = started.setdefault(placement.session_id, [])
            indices += [] if placement.index is None else [placement.index]
        gone = []
        for name, indices in started.items():
            row = self._rows[name]
            tasks = None if row.tasks is None else Intervals.of(set(row.tasks) - set(indices))
            if tasks:
                left = row.tasks_startable - len(indices) if name in self._limited else len(tasks)
                self._replace(row, replace(row, tasks=tasks, tasks_startable=left))
            else:
                gone.append(row)
                self._dependencies.start_last(name)
        self._remove(gone)

    def _hold(self, row: RunningRow, *, sign: int, now_us: int) -> None:
        rate_milli = 0
        for kernel in row.kernels:
            layout = self._layouts.get(kernel.agent_id)
            devices = layout.devices if layout is not None else {}
            rate_milli += fairshare.rate_milli(kernel.spec, devices=devices, charges=self._policy.charges)
            more = occupancy_on((kernel.spec,), devices)
            self._used[kernel.node_id] = (added if sign > 0 else removed)(self._used.get(kernel.node_id, {}), more)
        if sign < 0:
            budgets = Budgets(self._snapshot, prices=self._policy.prices, now_us=now_us)
            self._snapshot = replace(self._snapshot, costs=budgets.settled(row))
        self._usage = self._usage.held(sign * rate_milli, user=row.owner, project=row.project, now_us=now_us)

    def _remove(self, rows: Sequence[PendingRow]) -> None:
        for row in rows:
            del self._rows[row.session_id]
        if rows:
            self._queue = self._queue.changed(left=rows)

    def _replace(self, row: PendingRow, now: PendingRow) -> None:
        self._rows[row.session_id] = now
        self._queue = self._queue.changed(left=[row], joined=[now])

    def _allow_task(self, array_id: SessionId | None) -> None:
        """Let one more task of a limited job array start, if any is left."""
        if array_id is not None and array_id in self._limited and array_id in self._rows:
            self._replace(self._rows[array_id], with_task_ended(self._rows[array_id]))
