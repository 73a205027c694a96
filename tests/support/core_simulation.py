"""A cluster over time: plans of `decide` are applied, sessions end, and the next pass sees it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from aliquot.core.allocation.occupancy import added, occupancy_on
from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import BacklogPeak, Eviction, KernelPlacement, Placement, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, RunningRow, Snapshot
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import planned_duration_ms
from aliquot.core.scheduler.ordering import in_order, order_named
from aliquot_schema.ids import DeviceId, NodeId, PoolId, QuotaId, SessionId, task_id
from aliquot_schema.quotas import Quota
from aliquot_schema.states import SessionState
from core_cluster import standing


@dataclass(frozen=True, kw_only=True)
class Job:
    """A session to be submitted, and its actual run time, unknown to the scheduler."""

    row: PendingRow
    duration_ms: int
    """It ends by its guard at the latest, unless it overruns."""
    fallbacks: tuple[tuple[int, Request], ...] = ()
    """Its fallbacks: (time in microseconds, request)."""
    overruns: bool = False
    """Whether it is not ended at its guard."""


@dataclass(kw_only=True)
class _RunningJob:
    row: RunningRow
    job: Job
    ends_us: int
    index: int | None


@dataclass(kw_only=True)
class ClusterSimulation:
    """The state between two passes. `queue` and `used` are derived from their last versions, as in a server."""

    agents: tuple[AgentRow, ...]
    policy: Policy
    jobs: Iterable[Job]
    now_us: int
    quotas: Mapping[QuotaId, Quota] = field(default_factory=dict)
    parallel: int = 2
    """For an array, the number of tasks that may run concurrently."""
    usage: Usage = field(default_factory=Usage)
    queue: Queue = field(default_factory=lambda: Queue.of([]))
    used: dict[NodeId, Mapping[DeviceId, int]] = field(default_factory=dict)
    running: dict[SessionId, _RunningJob] = field(default_factory=dict)
    started_us: dict[SessionId, int] = field(default_factory=dict)
    """First start times of sessions and tasks."""

    def __post_init__(self) -> None:
        self._arrivals = sorted(self.jobs, key=lambda job: (job.row.queued_us, job.row.session_id))
        self._jobs = {job.row.session_id: job for job in self._arrivals}
        self._preemptions: dict[SessionId, int] = {}
        self._states: dict[SessionId, SessionState] = {}
        self._cache = PassCache()
        self.backlogs: dict[PoolId, BacklogPeak] = {}
        self._arrive()

    def snapshot(self) -> Snapshot:
        """What a pass sees now."""
        rows = tuple(runner.row for runner in self.running.values())
        return Snapshot(
            revision=0,
            agents=self.agents,
            used=dict(self.used),
            queue=self.queue,
            running=rows,
            holders=_holders(rows),
            dependencies=self._states,
            quotas=self.quotas,
            usage=self.usage,
            backlogs=dict(self.backlogs),
        )

    def decide(self) -> Plan:
        """A pass that uses the cache of earlier ones; its plan is not applied yet."""
        return decide(self.snapshot(), self.policy, now_us=self.now_us, seed=7, known=self._cache)

    def apply(self, plan: Plan) -> None:
        """Apply a plan."""
        self.backlogs |= plan.backlogs
        for placement in plan.placements:
            self._start(placement)
        for eviction in plan.evictions:
            self._evict(eviction)
        for session_id, level in plan.fallbacks.items():
            self._apply_fallback(session_id, level)
        for session_id in plan.failures:
            self._states[session_id] = SessionState.FAILED
            self._requeue(session_id, None)

    def advance(self, plan: Plan) -> bool:
        """Go on to the next event; False if there is none."""
        times = [runner.ends_us for runner in self.running.values()]
        times += [job.row.queued_us for job in self._arrivals[:1]]
        times += [plan.wake_at_us] if plan.wake_at_us is not None else []
        if not times:
            return False
        self.now_us = max(min(times), self.now_us + 1)
        for name in [name for name, runner in self.running.items() if runner.ends_us <= self.now_us]:
            self._end(name)
        self._arrive()
        return True

    def run(self, look: Callable[[Plan], None], *, passes: int = 60) -> None:
        """Passes until nothing happens any more; every plan is checked before it is applied."""
        for _ in range(passes):
            plan = self.decide()
            look(plan)
            self.apply(plan)
            if not self.advance(plan):
                return

    def ordered_queue(self, plan: Plan) -> list[PendingRow]:
        """All waiting rows in order, as seen by a plan that is not applied yet."""
        judged = replace(self.snapshot(), backlogs={**self.backlogs, **plan.backlogs})
        inputs = standing(judged, weights=self.policy.weights, now_us=self.now_us, is_ready=False)
        return [self.queue[position] for position in in_order(order_named(self.policy.order), inputs).tolist()]

    def row(self, session_id: SessionId) -> PendingRow | None:
        """A row of the queue."""
        return next((row for row in self.queue if row.session_id == session_id), None)

    def _arrive(self) -> None:
        arrived = [job.row for job in self._arrivals if job.row.queued_us <= self.now_us]
        self._arrivals = self._arrivals[len(arrived) :]
        self.queue = self.queue.changed(joined=arrived)
        self._states |= {row.session_id: row.state for row in arrived}

    def _start(self, placement: Placement) -> None:
        row = self.row(placement.session_id)
        assert row is not None, f"{placement.session_id} starts, and does not wait"
        job, name = self._jobs[row.session_id], row.session_id
        if placement.index is not None:
            assert row.tasks is not None
            name = task_id(row.session_id, index=placement.index)
            left = row.tasks.without(placement.index)
            rest = replace(row, tasks=left, tasks_startable=min(row.tasks_startable - 1, len(left)))
            self._requeue(row.session_id, rest if left else None)
        else:
            self._requeue(row.session_id, None)
        lasts_ms = job.duration_ms if job.overruns else min(job.duration_ms, self._guard_ms(row))
        running = self._running(name, row, placement.kernels, is_task=placement.index is not None)
        self.running[name] = _RunningJob(
            row=running, job=job, ends_us=self.now_us + lasts_ms * 1000, index=placement.index
        )
        self.started_us.setdefault(name, self.now_us)
        self._states[row.session_id] = SessionState.RUNNING
        self._hold(running, sign=1)

    def _running(
        self, name: SessionId, row: PendingRow, kernels: Iterable[KernelPlacement], *, is_task: bool
    ) -> RunningRow:
        ends_us = self.now_us + self._guard_ms(row) * 1000
        return replace(
            RunningRow.of(name, kernels, ends_us=ends_us, agents=self.agents),
            version=row.version,
            owner=row.owner,
            project=row.project,
            priority=row.priority,
            started_us=self.now_us,
            estimate_ms=row.estimate_ms,
            is_preemptible=row.is_preemptible,
            preemptions=self._preemptions.get(name, 0),
            array_id=row.session_id if is_task else None,
        )

    def _evict(self, eviction: Eviction) -> None:
        runner = self.running[eviction.session_id]
        assert not runner.row.is_leaving, f"{eviction.session_id} is asked twice"
        grace_us = self.now_us + eviction.grace_ms * 1000
        runner.row = replace(runner.row, is_leaving=True, ends_us=min(runner.row.ends_us, grace_us))
        runner.ends_us = min(runner.ends_us, grace_us)

    def _apply_fallback(self, session_id: SessionId, level: int) -> None:
        row = self.row(session_id)
        assert row is not None, f"{session_id} falls back, and does not wait"
        smaller = self._jobs[session_id].fallbacks
        assert level == row.fallback_level + 1
        due = smaller[level][0] if level < len(smaller) else None
        less = replace(row, request=smaller[level - 1][1], fallback_level=level, falls_back_us=due)
        self._requeue(session_id, replace(less, version=row.version + 1))

    def _end(self, name: SessionId) -> None:
        runner = self.running.pop(name)
        self._hold(runner.row, sign=-1)
        row = runner.job.row
        if runner.index is not None:
            self._end_task(row, runner)
        elif runner.row.is_leaving and runner.ends_us == runner.row.ends_us:
            self._preemptions[name] = self._preemptions.get(name, 0) + 1
            self._requeue(name, row)
        else:
            self._states[name] = SessionState.COMPLETED

    def _end_task(self, row: PendingRow, runner: _RunningJob) -> None:
        """A preempted task waits again; another one may start in any case."""
        array = self.row(row.session_id) or replace(row, tasks=type(row.tasks)() if row.tasks is not None else None)
        assert array.tasks is not None
        assert runner.index is not None
        again = runner.row.is_leaving and runner.ends_us == runner.row.ends_us
        tasks = array.tasks.with_number(runner.index) if again else array.tasks
        active = sum(1 for other in self.running.values() if other.row.array_id == row.session_id)
        startable = min(len(tasks), max(self.parallel - active, 0))
        self._requeue(row.session_id, replace(array, tasks=tasks, tasks_startable=startable) if tasks else None)

    def _requeue(self, session_id: SessionId, row: PendingRow | None) -> None:
        """Replace the waiting row by another one, or remove it."""
        before = self.row(session_id)
        self.queue = self.queue.changed(left=[before] if before else [], joined=[row] if row else [])
        if row is not None:
            self._states[session_id] = row.state

    def _hold(self, running: RunningRow, *, sign: int) -> None:
        devices = {agent.id: agent.layout.devices for agent in self.agents}
        for kernel in running.kernels:
            more = occupancy_on((kernel.spec,), devices[kernel.agent_id])
            held = self.used.get(kernel.node_id, {})
            less = {device: held.get(device, 0) - amount for device, amount in more.items()}
            self.used[kernel.node_id] = added(held, more) if sign > 0 else {**held, **less}
        milli = sign * running.milli
        self.usage = self.usage.held(milli, user=running.owner, project=running.project, now_us=self.now_us)

    def _guard_ms(self, row: PendingRow) -> int:
        return planned_duration_ms(
            estimate_ms=row.estimate_ms, limit_ms=row.limit_ms, policy=self.policy, pool=row.where.pool
        )


def _holders(rows: Iterable[RunningRow]) -> dict[NodeId, dict[DeviceId, tuple[SessionId, ...]]]:
    found: dict[NodeId, dict[DeviceId, tuple[SessionId, ...]]] = {}
    for row in rows:
        for kernel in row.kernels:
            on_node = found.setdefault(kernel.node_id, {})
            for device in dict.fromkeys(device for amounts in kernel.spec.values() for device in amounts):
                on_node[device] = (*on_node.get(device, ()), row.session_id)
    return found
