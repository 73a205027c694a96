"""Simulation run: an event loop over a trace; every time with arrivals or ends is one pass over the queue.

Passes are those of `decide`, or of the fast engine where it supports the policy: the results are the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.foresight.decided_cluster import Cluster, DecidedCluster, SessionStart
from aliquot.core.foresight.engine import cluster_of
from aliquot.core.model.agent_index import capacity_milli
from aliquot.core.model.plan import Eviction
from aliquot.core.model.snapshot import ANYWHERE, AgentRow, PendingRow, PlacementConstraints, Request, Snapshot
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot.core.prediction import Predictor, WaitingWorkloads, Workload
from aliquot.core.simulation.cluster import Estimates, SimulationSettings
from aliquot.core.simulation.report import Outcome, Timeline
from aliquot.core.simulation.trace import Job, refuse_unfitting
from aliquot_schema.ids import SessionId
from aliquot_schema.states import SessionState


@dataclass(slots=True, kw_only=True)
class JobProgress:
    """Progress of one job since its submission. Times are microseconds."""

    job: Job
    row: PendingRow
    started_us: int | None = None
    """The first start."""
    ended_us: int | None = None
    kept_ms: int = 0
    """Work saved by checkpoints."""
    lost_ms: int = 0
    preemptions: int = 0


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A running job."""

    progress: JobProgress
    milli: int
    """Accelerators that it holds."""
    began_us: int
    done_us: int
    """When all of its work is done if it is not preempted."""
    ends_us: int
    """When it releases its devices; `done_us` or earlier."""
    restart_ms: int = 0
    """Time at its beginning without work."""
    evicted_us: int | None = None

    def evict(self, now_us: int, *, grace_ms: int) -> None:
        """Preempt it."""
        self.evicted_us = now_us
        self.ends_us = min(self.done_us, now_us + grace_ms * 1000)

    def stop(self, *, checkpoint_ms: int | None) -> None:
        """Count the work lost by a preemption, and prepare the row for the queue.

        Work during the grace is lost, as the grace is for saving earlier work.
        """
        assert self.evicted_us is not None, "only a preempted job stops before its work is done"
        progress = self.progress
        worked_ms = progress.kept_ms + max((self.evicted_us - self.began_us) // 1000 - self.restart_ms, 0)
        kept_ms = max(worked_ms // checkpoint_ms * checkpoint_ms, progress.kept_ms) if checkpoint_ms else 0
        progress.lost_ms += (self.ends_us - self.began_us) // 1000 - (kept_ms - progress.kept_ms)
        progress.kept_ms = kept_ms
        progress.preemptions += 1
        progress.row = replace(progress.row, version=progress.row.version + 1, kept_ms=kept_ms)


def simulate(
    jobs: Sequence[Job],
    agents: tuple[AgentRow, ...],
    settings: SimulationSettings,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
    exact: bool = False,
    on_pass: Callable[[int, Snapshot], None] | None = None,
) -> Outcome:
    """Run a trace to its end.

    Args:
        jobs: by submission, see `numbered`.
        on_progress: called after every pass with the number of ended jobs.
        exact: whether every pass is one of `decide`, even where the fast engine would give the same result.
        on_pass: called before every pass with its time, in microseconds, and what it sees; makes the run exact.
    Raises:
        InvalidRequest: a job does not fit the empty cluster.
    """
    refuse_unfitting(jobs, agents, settings.policy.allocation)
    empty = Snapshot(
        revision=0, agents=agents, used={}, queue=(), usage=Usage(half_life_ms=settings.policy.half_life_ms)
    )
    if on_pass is None:
        run = _Run(agents, settings, cluster_of(empty, settings.policy, seed=settings.seed, exact=exact))
    else:
        run = _watched(DecidedCluster(empty, settings.policy, seed=settings.seed), agents, settings, on_pass)
    arrived = 0
    while (now_us := run.next_us(jobs[arrived].submit_us if arrived < len(jobs) else None)) is not None:
        first = arrived
        while arrived < len(jobs) and jobs[arrived].submit_us <= now_us:
            arrived += 1
        run.step(now_us, arrivals=jobs[first:arrived])
        on_progress(run.ended)
    return _outcome(run, jobs, agents)


def _watched(
    cluster: DecidedCluster,
    agents: tuple[AgentRow, ...],
    settings: SimulationSettings,
    on_pass: Callable[[int, Snapshot], None],
) -> "_Run":
    """A run that shows what each of its passes sees."""
    return _Run(agents, settings, cluster, before_pass=lambda now_us: on_pass(now_us, cluster.snapshot()))


def _outcome(run: "_Run", jobs: Sequence[Job], agents: Iterable[AgentRow]) -> Outcome:
    progress = [run.progress[job.id] for job in jobs]
    return Outcome(
        jobs=tuple(jobs),
        started_us=tuple(progress.started_us for progress in progress if progress.started_us is not None),
        ended_us=tuple(progress.ended_us for progress in progress if progress.ended_us is not None),
        preemptions=tuple(progress.preemptions for progress in progress),
        lost_ms=tuple(progress.lost_ms for progress in progress),
        capacity_milli=capacity_milli(agents),
        timeline=run.timeline,
    )


class _Run:
    """The state of a simulated cluster."""

    def __init__(
        self,
        agents: tuple[AgentRow, ...],
        settings: SimulationSettings,
        cluster: Cluster,
        *,
        before_pass: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._before_pass = before_pass
        self._settings = settings
        self._workloads = WaitingWorkloads(Predictor())
        self._has_choice = sum(len(agent.layout.devices) for agent in agents) > 1
        """With a single device, the mix of requests does not matter."""
        self._asked: dict[Request, int] = {}
        self._held_milli = 0
        self._waiting = 0
        self._running: dict[SessionId, Attempt] = {}
        self._ends: list[tuple[int, SessionId]] = []
        """Heap; may hold outdated entries, see `_next_end_us`."""
        self._wake_at_us: int | None = None
        self._now_us = 0
        self.progress: dict[SessionId, JobProgress] = {}
        self.ended = 0
        self.timeline = Timeline()

    def next_us(self, arrival_us: int | None) -> int | None:
        """Time of the next event; None if there is none."""
        # Without a running or arriving job, a later pass would have the same result.
        times = [time for time in (arrival_us, self._next_end_us()) if time is not None]
        wakes = [self._wake_at_us] if times and self._wake_at_us is not None else []
        return min(times + wakes, default=None)

    def step(self, now_us: int, *, arrivals: Iterable[Job]) -> None:
        """Move the clock, process events, and run a pass."""
        self._now_us = now_us
        asked = self._asked
        for row in [*self._end_due(), *(self._submit(job) for job in arrivals)]:
            self._cluster.join(row)
            self._waiting += 1
        if self._asked is not asked:
            self._cluster.mix(self._asked)
        self._cluster.predict(self._workloads.changes())
        self._before_pass(now_us)
        found = self._cluster.run(now_us)
        for start in found.starts:
            self._start(start)
        for eviction in found.evictions:
            self._evict(eviction)
        self._wake_at_us = found.wake_us
        self.timeline.add(now_us, held_milli=self._held_milli, waiting=self._waiting)

    def _next_end_us(self) -> int | None:
        while self._ends:
            at_us, session_id = self._ends[0]
            attempt = self._running.get(session_id)
            if attempt is not None and attempt.ends_us == at_us:
                return at_us
            heappop(self._ends)
        return None

    def _end_due(self) -> list[PendingRow]:
        """End all due attempts; returns the rows of preempted jobs, which are queued again."""
        waiting: list[PendingRow] = []
        while (at_us := self._next_end_us()) is not None and at_us <= self._now_us:
            attempt = self._running.pop(heappop(self._ends)[1])
            progress = attempt.progress
            self._cluster.end(progress.job.id, now_us=self._now_us)
            self._held_milli -= attempt.milli
            if attempt.ends_us < attempt.done_us:
                attempt.stop(checkpoint_ms=self._settings.checkpoint_ms)
                waiting.append(progress.row)
                self._join(progress.row)
            else:
                progress.ended_us = at_us
                progress.lost_ms += attempt.restart_ms
                self.ended += 1
                self._workloads.learn(_workload(progress.job), duration_ms=self._ran_ms(progress.job))
        return waiting

    def _submit(self, job: Job) -> PendingRow:
        if self._has_choice:
            # A new mapping each time: caches go by its identity.
            self._asked = {**self._asked, job.request: self._asked.get(job.request, 0) + 1}
        is_exact = self._settings.estimates is Estimates.EXACT
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
            excluded_agents=(),
            depends_on=(),
            owner=job.user,
            project=job.project,
            estimate_ms=job.duration_ms if is_exact else None,
            workload=_workload(job) if self._settings.estimates is Estimates.PREDICTED else None,
            limit_ms=job.duration_ms if is_exact else job.limit_ms,
            where=PlacementConstraints(models=job.models) if job.models else ANYWHERE,
            is_preemptible=job.preemptible,
            checkpoint_ms=self._settings.checkpoint_ms,
        )
        self.progress[job.id] = JobProgress(job=job, row=row)
        self._join(row)
        return row

    def _join(self, row: PendingRow) -> None:
        if row.workload is not None:
            self._workloads.join(row.workload)

    def _ran_ms(self, job: Job) -> int:
        """The run time that the predictor learns."""
        jitter = self._settings.jitter_permille
        jitter_drawn = split_mix_64(self._settings.seed, int(job.id)) % (2 * jitter * 1000 + 1) - jitter * 1000
        return max(job.duration_ms * (1_000_000 + jitter_drawn) // 1_000_000, 1)

    def _start(self, start: SessionStart) -> None:
        progress = self.progress[start.name]
        job, row = progress.job, progress.row
        restart_ms = self._settings.restart_ms if progress.preemptions else 0
        done_us = self._now_us + (job.duration_ms - progress.kept_ms + restart_ms) * 1000
        self._running[job.id] = Attempt(
            progress=progress,
            milli=start.milli,
            began_us=self._now_us,
            done_us=done_us,
            ends_us=done_us,
            restart_ms=restart_ms,
        )
        heappush(self._ends, (done_us, job.id))
        self._waiting -= 1
        self._held_milli += start.milli
        if progress.started_us is None:
            progress.started_us = self._now_us
        if row.workload is not None:
            self._workloads.leave(row.workload)

    def _evict(self, eviction: Eviction) -> None:
        attempt = self._running[eviction.session_id]
        attempt.evict(self._now_us, grace_ms=eviction.grace_ms)
        attempt.progress.row = replace(attempt.progress.row, preempted_for=eviction.by_session)
        self._cluster.evict(eviction.session_id, ends_us=attempt.ends_us)
        heappush(self._ends, (attempt.ends_us, eviction.session_id))


def _workload(job: Job) -> Workload:
    return Workload(user=job.user, program=job.program, milli=job.milli, limit_ms=job.limit_ms)
