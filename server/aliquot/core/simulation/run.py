"""A run of a trace: arrivals and ends move the clock, and every moment with news is one pass of `decide`."""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Final

from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on, removed
from aliquot.core.decide import decide
from aliquot.core.fairshare import Usage
from aliquot.core.feasibility import FeasibilityMemo
from aliquot.core.guards import guard_ms
from aliquot.core.plan import Placement
from aliquot.core.predict import Predictor, Workload
from aliquot.core.queue import Queue
from aliquot.core.simulation.cluster import capacity_milli
from aliquot.core.simulation.fitting import refuse_unfitting, unsuited
from aliquot.core.simulation.outcome import Outcome
from aliquot.core.simulation.settings import Estimates, Settings
from aliquot.core.simulation.timeline import Timeline
from aliquot.core.simulation.trace import Job
from aliquot.core.snapshot import AgentRow, PendingRow, Request, RunningRow, Snapshot
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SessionId
from aliquot_schema.states import SessionState

MIX_A: Final = 0xBF58476D1CE4E5B9
MIX_B: Final = 0x94D049BB133111EB
MASK: Final = 2**64 - 1


def simulate(
    jobs: Sequence[Job],
    agents: tuple[AgentRow, ...],
    settings: Settings,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Run a trace to its end.

    Args:
        jobs: by submission, see `numbered`.
        on_progress: told after every pass how many jobs have ended.
    Raises:
        InvalidRequest: a job would not even fit the empty cluster.
    """
    refuse_unfitting(jobs, agents, settings.policy.allocation)
    run = _Run(agents, settings)
    arrived = 0
    while arrived < len(jobs) or run.ends:
        now_us = min(
            jobs[arrived].submit_us if arrived < len(jobs) else run.ends[0][0],
            run.ends[0][0] if run.ends else jobs[arrived].submit_us,
        )
        first = arrived
        while arrived < len(jobs) and jobs[arrived].submit_us <= now_us:
            arrived += 1
        run.step(now_us, arrivals=jobs[first:arrived])
        on_progress(len(run.ended_us))
    return Outcome(
        jobs=tuple(jobs),
        started_us=tuple(run.started_us[job.id] for job in jobs),
        ended_us=tuple(run.ended_us[job.id] for job in jobs),
        capacity_milli=capacity_milli(agents),
        timeline=run.timeline,
    )


class _Run:
    """The state of a simulated cluster."""

    def __init__(self, agents: tuple[AgentRow, ...], settings: Settings) -> None:
        self._agents = agents
        self._settings = settings
        self._layouts = {agent.id: agent.layout for agent in agents}
        self._predictor = Predictor()
        self._known = FeasibilityMemo()
        self._unsuited: dict[tuple[str, ...], tuple[AgentId, ...]] = {}
        self._asked: dict[Request, int] = {}
        self._queue = Queue.of(())
        self._used: dict[NodeId, Occupancy] = {}
        self._held_milli = 0
        self._usage = Usage()
        self._waiting: dict[SessionId, tuple[Job, PendingRow]] = {}
        self._running: dict[SessionId, tuple[Job, RunningRow]] = {}
        self._now_us = 0
        self.ends: list[tuple[int, SessionId]] = []
        self.started_us: dict[SessionId, int] = {}
        self.ended_us: dict[SessionId, int] = {}
        self.timeline = Timeline()

    def step(self, now_us: int, *, arrivals: Iterable[Job]) -> None:
        """Move the clock, take in what happened, and decide."""
        self._now_us = now_us
        while self.ends and self.ends[0][0] <= now_us:
            self._end(heappop(self.ends)[1])
        self._queue = self._queue.changed(joined=[self._submit(job) for job in arrivals])
        settings = self._settings
        plan = decide(
            self._snapshot(), settings.policy, now_us=now_us, seed=settings.seed, known=self._known, explains=False
        )
        if plan.placements:
            self._queue = self._queue.changed(left=[self._start(placement) for placement in plan.placements])
        self.timeline.add(now_us, held_milli=self._held_milli, waiting=len(self._waiting))

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            revision=0,
            agents=self._agents,
            used=self._used,
            queue=self._queue,
            asked=self._asked,
            running=[row for _, row in self._running.values()],
            usage=self._usage,
        )

    def _submit(self, job: Job) -> PendingRow:
        # Rows of earlier passes, and what was made of their counts, stay as they are.
        self._asked = {**self._asked, job.request: self._asked.get(job.request, 0) + 1}
        row = PendingRow(
            session_id=job.id,
            version=1,
            state=SessionState.QUEUED,
            request=job.request,
            cluster_size=job.cluster_size,
            gpu_memory_bytes=job.gpu_memory_bytes,
            priority=job.priority,
            queued_us=job.submit_us,
            not_before_us=None,
            excluded_agents=self._unsuited_to(job),
            depends_on=(),
            owner=job.user,
            project=job.project,
            estimate_ms=self._estimate_ms(job),
            limit_ms=job.duration_ms if self._settings.estimates is Estimates.EXACT else job.limit_ms,
        )
        self._waiting[job.id] = (job, row)
        return row

    def _unsuited_to(self, job: Job) -> tuple[AgentId, ...]:
        if job.models not in self._unsuited:
            self._unsuited[job.models] = unsuited(job.models, self._agents)
        return self._unsuited[job.models]

    def _estimate_ms(self, job: Job) -> int | None:
        if self._settings.estimates is Estimates.EXACT:
            return job.duration_ms
        if self._settings.estimates is Estimates.NONE:
            return None
        prediction = self._predictor.predict(_workload(job))
        if prediction is None:
            return job.limit_ms
        jitter = self._settings.jitter_permille
        drawn = _drawn(self._settings.seed, int(job.id)) % (2 * jitter * 1000 + 1) - jitter * 1000
        return max(prediction.estimate_ms * (1_000_000 + drawn) // 1_000_000, 1)

    def _start(self, placement: Placement) -> PendingRow:
        job, row = self._waiting.pop(placement.session_id)
        guard = guard_ms(estimate_ms=row.estimate_ms, limit_ms=row.limit_ms, policy=self._settings.policy)
        running = RunningRow.of(job.id, placement.kernels, ends_us=self._now_us + guard * 1000, agents=self._agents)
        self._running[job.id] = (job, running)
        self.started_us[job.id] = self._now_us
        heappush(self.ends, (self._now_us + job.duration_ms * 1000, job.id))
        self._hold(job, running, change=added, sign=1)
        return row

    def _end(self, session_id: SessionId) -> None:
        job, row = self._running.pop(session_id)
        self.ended_us[session_id] = self._now_us
        self._predictor.learn(_workload(job), duration_ms=job.duration_ms)
        self._hold(job, row, change=removed, sign=-1)

    def _hold(
        self, job: Job, row: RunningRow, *, change: Callable[[Occupancy, Occupancy], dict[DeviceId, int]], sign: int
    ) -> None:
        for kernel in row.kernels:
            more = occupancy_on((kernel.spec,), self._layouts[kernel.agent_id].devices)
            self._used = {**self._used, kernel.node_id: change(self._used.get(kernel.node_id, {}), more)}
        self._held_milli += sign * row.milli
        self._usage = self._usage.held(sign * row.milli, user=job.user, project=job.project, now_us=self._now_us)


def _workload(job: Job) -> Workload:
    return Workload(user=job.user, program=None, milli=job.milli, limit_ms=job.limit_ms)


def _drawn(seed: int, number: int) -> int:
    """A pseudo-random number of 64 bits (SplitMix64)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1B54A32D192ED03) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * MIX_A) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * MIX_B) & MASK
    return mixed ^ (mixed >> 31)
