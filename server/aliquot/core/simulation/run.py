"""A run of a trace: arrivals and ends move the clock, and every moment with news is one pass of `decide`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final

from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on, removed
from aliquot.core.decide import decide
from aliquot.core.fairshare import Usage
from aliquot.core.feasibility import FeasibilityMemo
from aliquot.core.guards import guard_ms
from aliquot.core.plan import Placement
from aliquot.core.policy import Policy
from aliquot.core.predict import Predictor, Workload
from aliquot.core.queue import Queue
from aliquot.core.simulation.cluster import SLOT
from aliquot.core.simulation.trace import Job
from aliquot.core.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import DeviceId, NodeId, SessionId
from aliquot_schema.sessions import Priority
from aliquot_schema.slots import MILLI
from aliquot_schema.states import SessionState

MIX_A: Final = 0xBF58476D1CE4E5B9
MIX_B: Final = 0x94D049BB133111EB
MASK: Final = 2**64 - 1


class Estimates(StrEnum):
    """Where the expected run times come from."""

    PREDICTED = "predicted"
    """From the built-in predictor, when a job is submitted."""
    EXACT = "exact"
    """An oracle: the true run time, also as the limit. What no scheduler can know."""
    NONE = "none"
    """Nobody knows any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is made with."""

    policy: Policy
    estimates: Estimates = Estimates.PREDICTED
    jitter_permille: int = 0
    """Estimates are moved by up to so much either way: two runs differ, as two days do."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the jobs."""

    jobs: tuple[Job, ...]
    started_us: tuple[int, ...]
    """Of each job, in their order."""
    busy_milli_us: int
    """Milli of devices x microseconds held while somebody waited."""
    queued_us: int
    """How long somebody waited."""
    passes: int


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
        on_progress: told after every pass how many jobs have been submitted.
    Raises:
        InvalidRequest: a job would not even fit the empty cluster.
    """
    _check(jobs, agents)
    run = _Run(agents, settings)
    arrived, passes = 0, 0
    while arrived < len(jobs) or run.ends:
        now_us = min(
            jobs[arrived].submit_us if arrived < len(jobs) else run.ends[0][0],
            run.ends[0][0] if run.ends else jobs[arrived].submit_us,
        )
        first = arrived
        while arrived < len(jobs) and jobs[arrived].submit_us <= now_us:
            arrived += 1
        run.step(now_us, arrivals=jobs[first:arrived])
        passes += 1
        on_progress(arrived)
    return Outcome(
        jobs=tuple(jobs),
        started_us=tuple(run.started_us[job.id] for job in jobs),
        busy_milli_us=run.busy_milli_us,
        queued_us=run.queued_us,
        passes=passes,
    )


def _check(jobs: Iterable[Job], agents: Iterable[AgentRow]) -> None:
    most = max(sum(device.capacity(SLOT) for device in agent.layout.devices.values()) for agent in agents)
    largest = max((job.gpus for job in jobs), default=0)
    if largest > most:
        raise InvalidRequest(f"a job of the trace asks for {largest} GPUs, and no place has more than {most}")


class _Run:
    """The state of a simulated cluster."""

    def __init__(self, agents: tuple[AgentRow, ...], settings: Settings) -> None:
        self._agents = agents
        self._settings = settings
        self._layouts = {agent.id: agent.layout for agent in agents}
        self._predictor = Predictor()
        self._known = FeasibilityMemo()
        self._queue = Queue.of(())
        self._used: dict[NodeId, Occupancy] = {}
        self._held_milli = 0
        self._usage = Usage()
        self._waiting: dict[SessionId, tuple[Job, PendingRow]] = {}
        self._running: dict[SessionId, tuple[Job, RunningRow]] = {}
        self._now_us = 0
        self.ends: list[tuple[int, SessionId]] = []
        self.started_us: dict[SessionId, int] = {}
        self.busy_milli_us = 0
        self.queued_us = 0

    def step(self, now_us: int, *, arrivals: Iterable[Job]) -> None:
        """Move the clock, take in what happened, and decide."""
        if self._waiting:
            self.queued_us += now_us - self._now_us
            self.busy_milli_us += self._held_milli * (now_us - self._now_us)
        self._now_us = now_us
        while self.ends and self.ends[0][0] <= now_us:
            self._end(heappop(self.ends)[1])
        self._queue = self._queue.changed(joined=[self._submit(job) for job in arrivals])
        snapshot = Snapshot(
            revision=0,
            agents=self._agents,
            used=self._used,
            queue=self._queue,
            running=[row for _, row in self._running.values()],
            usage=self._usage,
        )
        settings = self._settings
        plan = decide(snapshot, settings.policy, now_us=now_us, seed=settings.seed, known=self._known, explains=False)
        if plan.placements:
            self._queue = self._queue.changed(left=[self._start(placement) for placement in plan.placements])

    def _submit(self, job: Job) -> PendingRow:
        row = PendingRow(
            session_id=job.id,
            version=1,
            state=SessionState.QUEUED,
            request=((SLOT, job.gpus),),
            cluster_size=1,
            gpu_memory_bytes=None,
            priority=Priority.NORMAL,
            queued_us=job.submit_us,
            not_before_us=None,
            excluded_agents=(),
            depends_on=(),
            owner=job.user,
            project=job.project,
            estimate_ms=self._estimate_ms(job),
            limit_ms=job.duration_ms if self._settings.estimates is Estimates.EXACT else job.limit_ms,
        )
        self._waiting[job.id] = (job, row)
        return row

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
    return Workload(user=job.user, program=None, milli=job.gpus * MILLI, limit_ms=job.limit_ms)


def _drawn(seed: int, number: int) -> int:
    """A pseudo-random number of 64 bits (SplitMix64)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1B54A32D192ED03) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * MIX_A) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * MIX_B) & MASK
    return mixed ^ (mixed >> 31)
