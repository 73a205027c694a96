"""A run of a trace: arrivals and ends move the clock, and every moment with news is one pass of `decide`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from aliquot.core import charges
from aliquot.core.allocation.occupancy import Occupancy, added, occupancy_on, removed
from aliquot.core.decide import decide
from aliquot.core.fairshare import Usage
from aliquot.core.guards import guard_ms
from aliquot.core.memo import Memo
from aliquot.core.plan import Eviction, Placement
from aliquot.core.predict import Predictor, Workload
from aliquot.core.queue import Queue
from aliquot.core.simulation.attempt import Attempt, Course
from aliquot.core.simulation.cluster import capacity_milli
from aliquot.core.simulation.fitting import refuse_unfitting
from aliquot.core.simulation.outcome import Outcome
from aliquot.core.simulation.settings import Estimates, Settings
from aliquot.core.simulation.timeline import Timeline
from aliquot.core.simulation.trace import Job
from aliquot.core.snapshot import ANYWHERE, AgentRow, PendingRow, Request, RunningRow, Snapshot, Where
from aliquot_schema.ids import DeviceId, NodeId, SessionId
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
    while (now_us := run.next_us(jobs[arrived].submit_us if arrived < len(jobs) else None)) is not None:
        first = arrived
        while arrived < len(jobs) and jobs[arrived].submit_us <= now_us:
            arrived += 1
        run.step(now_us, arrivals=jobs[first:arrived])
        on_progress(run.ended)
    return _outcome(run, jobs, agents)


def _outcome(run: "_Run", jobs: Sequence[Job], agents: Iterable[AgentRow]) -> Outcome:
    courses = [run.courses[job.id] for job in jobs]
    return Outcome(
        jobs=tuple(jobs),
        started_us=tuple(course.started_us for course in courses if course.started_us is not None),
        ended_us=tuple(course.ended_us for course in courses if course.ended_us is not None),
        preemptions=tuple(course.preemptions for course in courses),
        lost_ms=tuple(course.lost_ms for course in courses),
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
        self._known = Memo()
        self._has_choice = sum(len(agent.layout.devices) for agent in agents) > 1
        """Where any device is as good, nobody needs to know what is often asked for."""
        self._asked: dict[Request, int] = {}
        self._queue = Queue.of(())
        self._used: dict[NodeId, Occupancy] = {}
        self._held_milli = 0
        self._usage = Usage(half_life_ms=settings.policy.half_life_ms)
        self._waiting: dict[SessionId, None] = {}
        self._running: dict[SessionId, Attempt] = {}
        self._ends: list[tuple[int, SessionId]] = []
        """Also of those that end earlier by now, or have ended: see `_next_end_us`."""
        self._wake_at_us: int | None = None
        self._now_us = 0
        self.courses: dict[SessionId, Course] = {}
        self.ended = 0
        self.timeline = Timeline()

    def next_us(self, arrival_us: int | None) -> int | None:
        """When something happens next; None when nothing will."""
        # With nobody who runs or comes, a pass at a later time would find what this one did.
        times = [time for time in (arrival_us, self._next_end_us()) if time is not None]
        wakes = [self._wake_at_us] if times and self._wake_at_us is not None else []
        return min(times + wakes, default=None)

    def step(self, now_us: int, *, arrivals: Iterable[Job]) -> None:
        """Move the clock, take in what happened, and decide."""
        self._now_us = now_us
        joined = [*self._end_due(), *(self._submit(job) for job in arrivals)]
        self._waiting |= dict.fromkeys(row.session_id for row in joined)
        self._queue = self._queue.changed(joined=joined)
        settings = self._settings
        plan = decide(
            self._snapshot(), settings.policy, now_us=now_us, seed=settings.seed, known=self._known, explains=False
        )
        if plan.placements:
            self._queue = self._queue.changed(left=[self._start(placement) for placement in plan.placements])
        for eviction in plan.evictions:
            self._evict(eviction)
        is_later = plan.wake_at_us is not None and plan.wake_at_us > now_us
        self._wake_at_us = plan.wake_at_us if is_later else None
        self.timeline.add(now_us, held_milli=self._held_milli, waiting=len(self._waiting))

    def _next_end_us(self) -> int | None:
        while self._ends:
            at_us, session_id = self._ends[0]
            attempt = self._running.get(session_id)
            if attempt is not None and attempt.ends_us == at_us:
                return at_us
            heappop(self._ends)
        return None

    def _end_due(self) -> list[PendingRow]:
        """End all whose time has come; gives the rows of those that have to wait again."""
        waiting: list[PendingRow] = []
        while (at_us := self._next_end_us()) is not None and at_us <= self._now_us:
            attempt = self._running.pop(heappop(self._ends)[1])
            course = attempt.course
            self._hold(course.job, attempt.row, change=removed, sign=-1)
            if attempt.ends_us < attempt.done_us:
                attempt.stop(checkpoint_ms=self._settings.checkpoint_ms)
                waiting.append(course.row)
            else:
                course.ended_us = at_us
                self.ended += 1
                self._predictor.learn(_workload(course.job), duration_ms=course.job.duration_ms)
        return waiting

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            revision=0,
            agents=self._agents,
            used=self._used,
            queue=self._queue,
            asked=self._asked,
            running=[attempt.row for attempt in self._running.values()],
            usage=self._usage,
        )

    def _submit(self, job: Job) -> PendingRow:
        if self._has_choice:
            # A new one each time: what was made of the counts goes by their identity.
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
            excluded_agents=(),
            depends_on=(),
            owner=job.user,
            project=job.project,
            estimate_ms=self._estimate_ms(job),
            limit_ms=job.duration_ms if self._settings.estimates is Estimates.EXACT else job.limit_ms,
            where=Where(models=job.models) if job.models else ANYWHERE,
            is_preemptible=job.preemptible,
        )
        self.courses[job.id] = Course(job=job, row=row)
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
        del self._waiting[placement.session_id]
        course = self.courses[placement.session_id]
        job, row = course.job, course.row
        done_us = self._now_us + (job.duration_ms - course.kept_ms) * 1000
        running = self._running_row(course, placement)
        self._running[job.id] = Attempt(
            course=course, row=running, began_us=self._now_us, done_us=done_us, ends_us=done_us
        )
        heappush(self._ends, (done_us, job.id))
        if course.started_us is None:
            course.started_us = self._now_us
        self._hold(job, running, change=added, sign=1)
        return row

    def _running_row(self, course: Course, placement: Placement) -> RunningRow:
        row = course.row
        guard = guard_ms(estimate_ms=row.estimate_ms, limit_ms=row.limit_ms, policy=self._settings.policy)
        ends_us = self._now_us + guard * 1000
        return replace(
            RunningRow.of(row.session_id, placement.kernels, ends_us=ends_us, agents=self._agents),
            version=row.version,
            owner=row.owner,
            project=row.project,
            priority=row.priority,
            started_us=self._now_us,
            estimate_ms=row.estimate_ms,
            is_preemptible=course.job.preemptible,
            preemptions=course.preemptions,
        )

    def _evict(self, eviction: Eviction) -> None:
        attempt = self._running[eviction.session_id]
        attempt.evict(self._now_us, grace_ms=eviction.grace_ms)
        attempt.course.row = replace(attempt.course.row, made_room_for=eviction.by_session)
        heappush(self._ends, (attempt.ends_us, eviction.session_id))

    def _hold(
        self, job: Job, row: RunningRow, *, change: Callable[[Occupancy, Occupancy], dict[DeviceId, int]], sign: int
    ) -> None:
        rate_milli = 0
        for kernel in row.kernels:
            devices = self._layouts[kernel.agent_id].devices
            rate_milli += charges.rate_milli(kernel.spec, devices=devices, charges=self._settings.policy.charges)
            more = occupancy_on((kernel.spec,), devices)
            self._used = {**self._used, kernel.node_id: change(self._used.get(kernel.node_id, {}), more)}
        self._held_milli += sign * row.milli
        self._usage = self._usage.held(sign * rate_milli, user=job.user, project=job.project, now_us=self._now_us)


def _workload(job: Job) -> Workload:
    return Workload(user=job.user, program=job.program, milli=job.milli, limit_ms=job.limit_ms)


def _drawn(seed: int, number: int) -> int:
    """A pseudo-random number of 64 bits (SplitMix64)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + (number + 1) * 0xD1B54A32D192ED03) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * MIX_A) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * MIX_B) & MASK
    return mixed ^ (mixed >> 31)
