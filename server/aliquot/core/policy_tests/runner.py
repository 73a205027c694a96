"""Scenario runner: passes of `decide` over the given state, from event to event."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from aliquot.core.allocation.occupancy import added, occupancy_on
from aliquot.core.model.plan import BacklogPeak, Eviction, KernelPlacement, Placement, Plan, Reservation
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, HoldersOn, PendingRow, PlacementConstraints, RunningRow, Snapshot
from aliquot.core.policy_tests.scenario import (
    START_US,
    Running,
    ScenarioJob,
    ScenarioStart,
    at_fallback,
    remaining,
    task_of,
    with_startable_tasks,
)
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.expected_ends import planned_duration_ms
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import AgentId, DeviceId, NodeId, PoolId, SessionId
from aliquot_schema.sessions import Failure
from aliquot_schema.states import SessionState

PASSES_MAX: Final = 10_000
NEVER_US: Final = 2**62


class ScenarioRun:
    """State of a scenario, with everything observed so far."""

    def __init__(self, given: ScenarioStart) -> None:
        """Place the sessions that run at the start.

        Raises:
            InvalidRequest: one of them does not fit.
        """
        self.plan = Plan()
        """Plan of the last pass."""
        self.started: dict[SessionId, tuple[AgentId, ...]] = {}
        """Agents by rank, in the order of starts."""
        self.preempted: dict[SessionId, None] = {}
        self.failed: dict[SessionId, Failure] = {}
        self._given = given
        self._layouts = {agent.id: agent.layout for agent in given.agents}
        self._now_us = START_US
        self._waiting = {job.row.session_id: job for job in given.queue}
        self._running: dict[SessionId, tuple[ScenarioJob, RunningRow]] = {}
        self._ends_us: dict[SessionId, int] = {}
        self._ended = dict(given.ended)
        self._usage = given.usage
        self._backlogs: dict[PoolId, BacklogPeak] = {}
        for runs in given.running:
            self._place_running(runs)
        self.order = self._order()
        """Sessions that wait at the start, in queue order."""

    def run(self, *, until_us: int) -> None:
        """Run a pass now, one at every event until `until_us`, and one at the end.

        Raises:
            InvalidRequest: more than `PASSES_MAX` passes are needed.
        """
        for _ in range(PASSES_MAX):
            self._pass()
            if self._now_us >= until_us:
                return
            self._now_us = min(self._next_event_us(), until_us)
            for session_id in [name for name, at_us in self._ends_us.items() if at_us <= self._now_us]:
                self._end(session_id)
        raise InvalidRequest(f"the scenario takes more than {PASSES_MAX} passes")

    def reservations(self) -> tuple[Reservation, ...]:
        """Reservations after the last pass."""
        if self.plan.promises:
            return self.plan.promises
        return (self.plan.reservation,) if self.plan.reservation is not None else ()

    def _order(self) -> tuple[SessionId, ...]:
        """The queue order: on a full cluster where nothing ends, all sessions wait, in this order."""
        full = {
            node_id: {
                device.id: device.budget for agent in self._on(node_id) for device in agent.layout.devices.values()
            }
            for node_id in dict.fromkeys(agent.node_id for agent in self._given.agents)
        }
        backlogs = decide(self._snapshot(), self._given.policy, now_us=self._now_us, seed=0).backlogs
        snapshot = replace(self._snapshot(), backlogs=backlogs, used=full, running=(), holders={}, quotas={})
        return tuple(decide(snapshot, self._given.policy, now_us=self._now_us, seed=0).verdicts)

    def _pass(self) -> None:
        self.plan = decide(self._snapshot(), self._given.policy, now_us=self._now_us, seed=0)
        self._backlogs |= self.plan.backlogs
        for session_id, failure in self.plan.failures.items():
            self.failed[session_id] = failure
            self._ended[session_id] = SessionState.FAILED
            del self._waiting[session_id]
        for placement in self.plan.placements:
            self._start(placement)
        for eviction in self.plan.evictions:
            self._evict(eviction)
        for session_id, level in self.plan.fallbacks.items():
            self._waiting[session_id] = at_fallback(self._waiting[session_id], level)

    def _next_event_us(self) -> int:
        if self.plan.fallbacks:
            return self._now_us + 1
        woken_us = NEVER_US if self.plan.wake_at_us is None else max(self.plan.wake_at_us, self._now_us + 1)
        return min((woken_us, *self._ends_us.values()))

    def _start(self, placement: Placement) -> None:
        whole = self._waiting.pop(placement.session_id)
        job = task_of(whole, placement.index)
        self.started[job.row.session_id] = tuple(kernel.agent_id for kernel in placement.kernels)
        planned_us = self._planned_us(job.row)
        row = self._row(job.row, placement.kernels, since_us=self._now_us, ends_us=self._now_us + planned_us)
        lasts_us = planned_us if job.runs_ms is None else job.runs_ms * 1000
        self._hold(job, row, ends_us=self._now_us + lasts_us)
        left = remaining(whole, placement.index, active=self._active(placement.session_id))
        if left is not None:
            self._waiting[placement.session_id] = left

    def _active(self, array_id: SessionId) -> int:
        """Number of running tasks of an array."""
        return sum(1 for job, _ in self._running.values() if job.array_id == array_id)

    def _evict(self, eviction: Eviction) -> None:
        job, row = self._running[eviction.session_id]
        self.preempted[eviction.session_id] = None
        leaves_us = min(self._ends_us[eviction.session_id], self._now_us + eviction.grace_ms * 1000)
        leaving = replace(row, is_leaving=True, ends_us=leaves_us, preemptions=row.preemptions + 1)
        yielding = replace(job, row=replace(job.row, preempted_for=eviction.by_session))
        self._running[eviction.session_id] = (yielding, leaving)
        self._ends_us[eviction.session_id] = leaves_us

    def _end(self, session_id: SessionId) -> None:
        job, row = self._running.pop(session_id)
        del self._ends_us[session_id]
        self._charge(row, milli=-row.milli)
        if row.is_leaving:
            self._waiting[session_id] = job
        else:
            self._ended[session_id] = SessionState.COMPLETED
        if job.array_id is not None:
            self._end_task(job.array_id)

    def _end_task(self, array_id: SessionId) -> None:
        """Another task of the array may start; after the last one the array has ended."""
        active = self._active(array_id)
        if array_id in self._waiting:
            self._waiting[array_id] = with_startable_tasks(self._waiting[array_id], active=active)
        elif not active and all(job.array_id != array_id for job in self._waiting.values()):
            self._ended[array_id] = SessionState.COMPLETED

    def _place_running(self, runs: Running) -> None:
        """Place a running session on the devices that it would get alone."""
        pending = runs.job.row
        others = tuple(agent.id for agent in self._given.agents if runs.on and agent.id not in runs.on)
        alone = replace(
            pending,
            state=SessionState.QUEUED,
            depends_on=(),
            where=PlacementConstraints(pool=self._pool_of(runs)),
            excluded_agents=others,
        )
        open_agents = tuple(replace(agent, is_open=True) for agent in self._given.agents)
        stage = replace(self._snapshot(), agents=open_agents, queue=(alone,), running=(), quotas={})
        plan = decide(stage, Policy(placement="first_fit"), now_us=self._now_us, seed=0)
        if not plan.placements:
            raise InvalidRequest(f"given.running: {pending.session_id} does not fit")
        since_us = self._now_us - runs.since_ms * 1000
        ends_us = (
            since_us + self._planned_us(pending) if runs.ends_in_ms is None else self._now_us + runs.ends_in_ms * 1000
        )
        row = self._row(pending, plan.placements[0].kernels, since_us=since_us, ends_us=ends_us)
        row = replace(row, preemptions=runs.preemptions, grace_ms=runs.grace_ms)
        lasts_us = ends_us if runs.job.runs_ms is None else since_us + runs.job.runs_ms * 1000
        self._hold(runs.job, row, ends_us=max(lasts_us, self._now_us + 1))

    def _pool_of(self, runs: Running) -> PoolId:
        pools = {agent.id: agent.pool for agent in self._given.agents}
        return pools[runs.on[0]] if runs.on else runs.job.row.where.pool

    def _planned_us(self, row: PendingRow) -> int:
        policy = self._given.policy
        return 1000 * planned_duration_ms(
            estimate_ms=row.estimate_ms, limit_ms=row.limit_ms, policy=policy, pool=row.where.pool
        )

    def _row(self, row: PendingRow, kernels: Iterable[KernelPlacement], *, since_us: int, ends_us: int) -> RunningRow:
        plain = RunningRow.of(row.session_id, kernels, ends_us=ends_us, agents=self._given.agents)
        return replace(
            plain,
            version=row.version,
            owner=row.owner,
            project=row.project,
            priority=row.priority,
            started_us=since_us,
            estimate_ms=row.estimate_ms,
            is_preemptible=row.is_preemptible,
        )

    def _hold(self, job: ScenarioJob, row: RunningRow, *, ends_us: int) -> None:
        self._running[row.session_id] = (job, row)
        self._ends_us[row.session_id] = ends_us
        self._charge(row, milli=row.milli)

    def _charge(self, row: RunningRow, *, milli: int) -> None:
        self._usage = self._usage.held(milli, user=row.owner, project=row.project, now_us=self._now_us)

    def _snapshot(self) -> Snapshot:
        rows = tuple(row for _, row in self._running.values())
        return Snapshot(
            revision=0,
            agents=self._given.agents,
            used=self._used(rows),
            queue=tuple(job.row for job in self._waiting.values()),
            dependencies=self._states(),
            holders=_holders(rows),
            running=rows,
            usage=self._usage,
            quotas=self._given.quotas,
            backlogs=self._backlogs,
        )

    def _states(self) -> Mapping[SessionId, SessionState]:
        waiting = {name: job.row.state for name, job in self._waiting.items()}
        arrays = [job.array_id for job, _ in self._running.values() if job.array_id is not None]
        return {**waiting, **dict.fromkeys((*arrays, *self._running), SessionState.RUNNING), **self._ended}

    def _used(self, rows: Iterable[RunningRow]) -> Mapping[NodeId, Mapping[DeviceId, int]]:
        used: dict[NodeId, Mapping[DeviceId, int]] = {}
        for row in rows:
            for kernel in row.kernels:
                more = occupancy_on((kernel.spec,), self._layouts[kernel.agent_id].devices)
                used[kernel.node_id] = added(used.get(kernel.node_id, {}), more)
        return used

    def _on(self, node_id: NodeId) -> list[AgentRow]:
        return [agent for agent in self._given.agents if agent.node_id == node_id]


def _holders(rows: Iterable[RunningRow]) -> Mapping[NodeId, HoldersOn]:
    found: dict[NodeId, dict[DeviceId, tuple[SessionId, ...]]] = {}
    for row in rows:
        for kernel in row.kernels:
            on_node = found.setdefault(kernel.node_id, {})
            for device_id in dict.fromkeys(device for amounts in kernel.spec.values() for device in amounts):
                on_node[device_id] = (*on_node.get(device_id, ()), row.session_id)
    return found
