"""History run: a recorded history again, under the recorded policy or another one, on its cluster or a changed one.

Sessions arrive, are canceled and are changed when they were. What followed a start is repeated after each start: the
run time, the time to release the devices, and an interruption by the cluster. A session whose run time is not recorded
runs for as long as it is predicted to.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter

from msgspec.structs import replace

from aliquot.core.foresight.decided_cluster import Cluster, DecidedCluster, SessionStart
from aliquot.core.foresight.engine import cluster_of, unsupported
from aliquot.core.model.agent_index import capacity_milli
from aliquot.core.model.plan import Eviction
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.prediction import Predictor, WaitingWorkloads
from aliquot.core.scheduler.expected_ends import ESTIMATE_MS_UNKNOWN
from aliquot.core.simulation.recorded_history import (
    AFTER_US_MAX,
    AttemptEnd,
    ClusterLoad,
    DecisionContext,
    HistoryOutcome,
    HistoryRunSettings,
    HoldStep,
    RecordedAttempt,
    RecordedFact,
    RecordedHistory,
    RecordedSession,
    kept_after,
)
from aliquot_schema.ids import SessionId
from aliquot_schema.states import SessionState


def run_history(
    history: RecordedHistory, settings: HistoryRunSettings, *, on_progress: Callable[[float], None] = lambda _: None
) -> HistoryOutcome:
    """Run a history to its end.

    Args:
        on_progress: called after every pass with the part of the run that is done, 0 to 1.
    """
    run = _HistoryRun(history, settings)
    while (now_us := run.next_us()) is not None and now_us <= history.until_us + AFTER_US_MAX:
        run.step(now_us)
        on_progress(run.progress())
    on_progress(1.0)
    return run.outcome()


@dataclass(slots=True, kw_only=True)
class _Holding:
    """A session that runs."""

    row: PendingRow
    """How it waited."""
    granted_us: int
    milli: int
    attempt: RecordedAttempt | None
    """The recorded attempt that is repeated; None = there is none."""
    number: int
    """Identifies it; steps of earlier ones are void."""
    ends_us: int
    evicted_us: int | None = None
    by_session: SessionId | None = None


_Event = RecordedFact | tuple[SessionId, int, HoldStep | None] | PendingRow
_Due = tuple[int, int, int, _Event]


class _HistoryRun:
    """The state of a run."""

    def __init__(self, history: RecordedHistory, settings: HistoryRunSettings) -> None:
        self._history = history
        self._settings = settings
        self._predictor = Predictor()
        for workload, duration_ms in history.lessons:
            self._predictor.learn(workload, duration_ms=duration_ms)
        self._workloads = WaitingWorkloads(self._predictor)
        self._order = count()
        self._due: list[_Due] = []
        self._waiting: dict[SessionId, PendingRow] = {}
        self._tasks_left: dict[SessionId, int] = {}
        self._holdings: dict[SessionId, _Holding] = {}
        self._attempts: Counter[SessionId] = Counter()
        """Recorded attempts that were repeated."""
        self._granted: dict[SessionId, int] = {}
        self._ended: dict[SessionId, int] = {}
        self._gone: dict[SessionId, SessionState] = {}  # left the queue unstarted
        self._preemptions: Counter[SessionId] = Counter()
        self._lost_ms: Counter[SessionId] = Counter()
        self._assumed: set[SessionId] = set()
        self._learned: set[SessionId] = set()
        self._load = ClusterLoad()
        self._done = 0  # of `history.work`, besides starts
        self._wake_us: int | None = None
        self._now_us = history.begins_us
        self._around = around = history.surroundings
        snapshot = replace(
            history.snapshot,
            agents=settings.agents(around.agents),
            quotas=settings.quotas(around.quotas),
            asked=around.asked,
        )
        policy = self._policy(around)
        self._decided = self._exact_cluster(snapshot, policy)
        self._cluster: Cluster = self._decided or cluster_of(snapshot, policy)
        self._capacity = capacity_milli(snapshot.agents)
        self._begin(snapshot)

    def _exact_cluster(self, snapshot: Snapshot, policy: Policy) -> DecidedCluster | None:
        """None = the fast cluster decides the same."""
        history, settings = self._history, self._settings
        everyone = replace(snapshot, queue=[*snapshot.queue, *(fact.arrival for fact in history.facts if fact.arrival)])
        is_fast = not settings.exact and history.is_plain and unsupported(everyone, policy) is None
        return None if is_fast else DecidedCluster(snapshot, policy, seed=0, starts_late=True)

    def _begin(self, snapshot: Snapshot) -> None:
        for row in snapshot.queue:
            self._note_waiting(row)
        for number, running in enumerate(snapshot.running):
            self._resume(running, number)
        for fact in self._history.facts:
            heappush(self._due, (fact.at_us, fact.at_us, next(self._order), fact))

    def next_us(self) -> int | None:
        """Time of the next event; None if there is none."""
        while self._due and self._is_void(self._due[0][3]):
            heappop(self._due)
        if not self._due:
            return None
        wake_us = self._wake_us
        wake_us = None if wake_us is None else self._history.pass_due_at(wake_us, now_us=self._now_us)
        # A server looks again after a pass that changed something, and while sessions overrun: at every recorded pass.
        times = [self._due[0][0]]
        times += [at_us for at_us in (wake_us, self._history.pass_after(self._now_us)) if at_us is not None]
        at_us = max(min(times), self._now_us)
        gap = bisect_right(self._history.gaps_us, at_us, key=itemgetter(0)) - 1
        return at_us if gap < 0 else max(at_us, self._history.gaps_us[gap][1])

    def step(self, now_us: int) -> None:
        """Move the clock, process events, and run a pass."""
        self._now_us = now_us
        while self._due and self._due[0][0] <= now_us:
            event = heappop(self._due)[3]
            self._done += isinstance(event, RecordedFact)
            if not self._is_void(event):
                self._process(event)
        self._wake_us = None
        if not self._around.is_stopped:
            self._pass()
        load = self._load
        load.at_us.append(now_us)
        load.held_milli.append(sum(holding.milli for holding in self._holdings.values()))
        load.capacity_milli.append(self._capacity)
        load.waiting.append(len(self._waiting))

    def progress(self) -> float:
        """The part that is done. Not of the recorded time: most of the work may be in one hour, or after its end."""
        return min((self._done + len(self._granted)) / max(self._history.work, 1), 1.0)

    def outcome(self) -> HistoryOutcome:
        """What has happened."""
        return HistoryOutcome(
            granted_us=self._granted,
            ended_us=self._ended,
            preemptions=self._preemptions,
            lost_ms=self._lost_ms,
            assumed=frozenset(self._assumed),
            load=self._load,
            exact=self._decided is not None,
        )

    def _policy(self, around: DecisionContext) -> Policy:
        return self._settings.policy or around.policy

    def _pass(self) -> None:
        self._cluster.predict(self._workloads.changes())
        outdated = self._history.outdated.get(self._now_us, frozenset())
        if outdated and self._decided is not None:
            found = self._decided.run(self._now_us, outdated=outdated)
        else:
            found = self._cluster.run(self._now_us)
        for start in found.starts:
            self._start(start)
        for eviction in found.evictions:
            self._evict(eviction)
        for name in found.failures:
            self._leave_unstarted(name, SessionState.FAILED)
        self._wake_us = found.wake_us

    def _is_void(self, event: _Event) -> bool:
        """Whether it is a step of an attempt that was preempted before."""
        if not isinstance(event, tuple):
            return False
        holding = self._holdings.get(event[0])
        return holding is None or holding.number != event[1]

    def _process(self, event: _Event) -> None:
        match event:
            case RecordedFact(arrival=PendingRow() as row) | (PendingRow() as row):
                self._join(row)
            case RecordedFact(withdrawal=str() as name):
                if self._cluster.leave(name):
                    self._leave_unstarted(name, SessionState.CANCELED)
            case RecordedFact(amendment=PendingRow() as row):
                self._amend(row)
            case RecordedFact(surroundings=DecisionContext() as around):
                self._change(around)
            case (name, _, step):
                self._continue(name, step)

    def _join(self, row: PendingRow) -> None:
        if row.session_id not in self._waiting and row.session_id not in self._holdings:
            self._note_waiting(row)
            self._cluster.join(row)

    def _note_waiting(self, row: PendingRow) -> None:
        self._waiting[row.session_id] = row
        self._gone.pop(row.session_id, None)
        self._tasks_left.setdefault(row.session_id, 1 if row.tasks is None else len(row.tasks))
        if row.workload is not None:
            self._workloads.join(row.workload)

    def _leave_unstarted(self, name: SessionId, state: SessionState) -> None:
        self._done += self._tasks_left.get(name, 0)
        self._forget_waiting(name)
        self._gone[name] = state

    def _forget_waiting(self, name: SessionId) -> None:
        row = self._waiting.pop(name)
        self._tasks_left.pop(name, None)
        if row.workload is not None:
            self._workloads.leave(row.workload)

    def _amend(self, row: PendingRow) -> None:
        known = self._waiting.get(row.session_id)
        if known is None or self._decided is None:
            return
        left = self._tasks_left[row.session_id]
        self._forget_waiting(row.session_id)
        self._tasks_left[row.session_id] = left
        self._note_waiting(row)
        self._decided.swap(row)

    def _change(self, around: DecisionContext) -> None:
        before, self._around = self._around, around
        if around.asked is not before.asked:
            self._cluster.mix(around.asked)
        if self._decided is None:
            return
        agents = self._settings.agents(around.agents)
        self._capacity = capacity_milli(agents)
        self._decided.occupy(around.foreign, less=before.foreign)
        self._decided.set_context(
            agents=agents,
            quotas=self._settings.quotas(around.quotas),
            policy=self._policy(around),
            dependencies={name: self._state_of(name, state) for name, state in around.dependencies.items()},
        )

    def _state_of(self, name: SessionId, recorded: SessionState) -> SessionState:
        """The state of a session that others depend on, in this run; of unknown ones and job arrays the recorded."""
        session = self._history.sessions.get(name)
        if session is None or not session.attempts:
            return recorded
        return session.state if name in self._ended else self._gone.get(name, SessionState.QUEUED)

    def _resume(self, running: RunningRow, number: int) -> None:
        """Continue a session that ran at the beginning."""
        name = running.session_id
        session = self._history.sessions.get(name)
        attempt = session.attempts[0] if session is not None and session.attempts else None
        started_us = self._history.begins_us if running.started_us is None else running.started_us
        granted_us = started_us if attempt is None else attempt.granted_us
        row = PendingRow(
            session_id=name,
            version=running.version,
            state=SessionState.QUEUED,
            request=(),
            cluster_size=len(running.kernels),
            gpu_memory_bytes=None,
            priority=running.priority,
            queued_us=granted_us if session is None else session.submitted_us,
            not_before_us=None,
            excluded_agents=(),
            depends_on=(),
            owner=running.owner,
            project=running.project,
        )
        row = row if attempt is None or attempt.returns is None else attempt.returns
        self._hold(name, row, granted_us=granted_us, milli=running.milli, number=-1 - number)

    def _start(self, start: SessionStart) -> None:
        row = self._waiting[start.name]
        self._granted.setdefault(start.run_id, self._now_us)
        self._tasks_left[start.name] -= 1
        if self._tasks_left[start.name] <= 0:
            self._forget_waiting(start.name)
        alone = replace(row, session_id=start.run_id, tasks=None, tasks_startable=1, depends_on=())
        self._hold(start.run_id, alone, granted_us=self._now_us, milli=start.milli, number=next(self._order))

    def _hold(self, name: SessionId, row: PendingRow, *, granted_us: int, milli: int, number: int) -> None:
        """Repeat what followed a grant."""
        session = self._history.sessions.get(name)
        place = self._attempts[name]
        attempt = session.attempts[place] if session is not None and place < len(session.attempts) else None
        if attempt is not None and attempt.end is AttemptEnd.ENDED and attempt.kept_ms != row.kept_ms:
            attempt = None
        self._attempts[name] += attempt is not None
        holding = _Holding(
            row=row, granted_us=granted_us, milli=milli, attempt=attempt, number=number, ends_us=granted_us
        )
        self._holdings[name] = holding
        last = None if attempt is None else attempt.last_release
        if attempt is not None and attempt.end in (AttemptEnd.ENDED, AttemptEnd.INTERRUPTED):
            holding.ends_us = granted_us + (attempt.returns_us if last is None else last.offset_us)
            self._plan(name, holding, attempt.steps)
            if last is None or holding.ends_us <= self._now_us:
                self._plan_end(name, holding)
            return
        early = () if attempt is None else attempt.early_steps
        holding.ends_us = max(granted_us + self._length_us(session, row, attempt), self._now_us + 1)
        self._plan(name, holding, early)
        if self._decided is not None and not any(step.started_us is not None for step in early):
            self._decided.update(name, lambda row: replace(row, started_us=granted_us))
        self._plan_end(name, holding)

    def _length_us(self, session: RecordedSession | None, row: PendingRow, attempt: RecordedAttempt | None) -> int:
        """How long a session runs whose attempt has no recorded end of its own."""
        work_us, ran_us = None if session is None else session.work_us, 1 if attempt is None else attempt.ran_us
        if work_us is not None:
            return max(work_us - 1000 * row.kept_ms, ran_us)
        self._assumed.add(row.session_id)
        found = None if row.workload is None else self._predictor.predict(row.workload)
        expected_ms = row.estimate_ms if row.estimate_ms is not None else None if found is None else found.estimate_ms
        expected_ms = row.limit_ms if expected_ms is None else expected_ms
        length_us = 1000 * (ESTIMATE_MS_UNKNOWN if expected_ms is None else expected_ms)
        return max(length_us, ran_us)

    def _plan(self, name: SessionId, holding: _Holding, steps: Iterable[HoldStep]) -> None:
        for step in steps:
            at_us = holding.granted_us + step.offset_us
            if at_us > self._now_us:
                since_us = holding.granted_us + step.since_us
                heappush(self._due, (at_us, since_us, next(self._order), (name, holding.number, step)))

    def _plan_end(self, name: SessionId, holding: _Holding) -> None:
        at_us = holding.ends_us
        heappush(self._due, (at_us, at_us, next(self._order), (name, holding.number, None)))

    def _continue(self, name: SessionId, step: HoldStep | None) -> None:
        """A step of a running session; None = it releases all that it holds."""
        holding = self._holdings[name]
        at_us = holding.granted_us
        if step is not None and step.has_ended:
            self._learn(name)
        if step is None or (holding.attempt is not None and step is holding.attempt.last_release):
            charged_us = step.charged_us if step is not None else None
            self._release(name, holding, charged_us=self._now_us if charged_us is None else at_us + charged_us)
            return
        if self._decided is None:
            return
        if step.released:
            charged_us = at_us + (step.offset_us if step.charged_us is None else step.charged_us)
            holding.milli = self._decided.release(name, step.released, now_us=charged_us)
        if step.started_us is not None:
            started_us = at_us + step.started_us
            self._decided.update(
                name,
                lambda row: replace(row, started_us=started_us, ends_us=row.ends_us + started_us - at_us),
            )
        if step.has_ended:
            # Predictions are of sessions that have not ended.
            expected_ms = holding.row.limit_ms if holding.row.estimate_ms is None else holding.row.estimate_ms
            self._decided.update(name, lambda row: replace(row, estimate_ms=expected_ms, array_id=None))
        if step.leaves_us is not None:
            leaves_us = at_us + step.leaves_us
            self._decided.update(name, lambda row: replace(row, is_leaving=True, ends_us=leaves_us))

    def _release(self, name: SessionId, holding: _Holding, *, charged_us: int) -> None:
        del self._holdings[name]
        attempt, session = holding.attempt, self._history.sessions.get(name)
        natural = attempt is None or attempt.end is not AttemptEnd.INTERRUPTED
        returns = holding.evicted_us is not None or not natural
        state = SessionState.COMPLETED if session is None else session.state
        if self._decided is None:
            self._cluster.end(name, now_us=charged_us)
        else:
            self._decided.end(name, now_us=charged_us, state=SessionState.QUEUED if returns else state)
        if returns:
            self._requeue(name, holding)
            return
        run_us = attempt.run_us if attempt is not None and attempt.end is AttemptEnd.ENDED else None
        self._ended[name] = self._now_us if run_us is None else holding.granted_us + run_us
        self._learn(name)

    def _learn(self, name: SessionId) -> None:
        """Teach the predictor the run of a session that has ended, once."""
        session = self._history.sessions.get(name)
        if session is not None and session.learned is not None and name not in self._learned:
            workload, duration_ms = session.learned
            self._learned.add(name)
            self._workloads.learn(workload, duration_ms=duration_ms)

    def _requeue(self, name: SessionId, holding: _Holding) -> None:
        attempt, row = holding.attempt, holding.row
        if holding.evicted_us is not None:
            kept_ms = kept_after(row, attempt, evicted_us=holding.evicted_us - holding.granted_us)
            self._preemptions[name] += 1
            self._lost_ms[name] += (self._now_us - holding.granted_us) // 1000 - (kept_ms - row.kept_ms)
            self._join(replace(row, version=row.version + 1, kept_ms=kept_ms, preempted_for=holding.by_session))
            return
        assert attempt is not None, "an interruption is recorded"
        if attempt.returns is not None:
            at_us = max(holding.granted_us + attempt.returns_us, self._now_us)
            shift_us = holding.granted_us - attempt.granted_us
            before_us = attempt.returns.not_before_us
            back = replace(
                attempt.returns,
                kept_ms=kept_after(row, attempt),
                not_before_us=None if before_us is None else before_us + shift_us,
            )
            heappush(self._due, (at_us, at_us, next(self._order), back))

    def _evict(self, eviction: Eviction) -> None:
        name = eviction.session_id
        holding = self._holdings[name]
        until_us = self._now_us + eviction.grace_ms * 1000
        self._cluster.evict(name, ends_us=until_us)
        attempt = holding.attempt
        holding.number = next(self._order)
        leaves_in_us = None if attempt is None else attempt.leaves_in_us
        left_us = min(until_us if leaves_in_us is None else self._now_us + leaves_in_us, holding.ends_us)
        if left_us < holding.ends_us or (attempt is not None and attempt.end is AttemptEnd.PREEMPTED):
            holding.evicted_us, holding.by_session, holding.ends_us = self._now_us, eviction.by_session, left_us
        if attempt is not None and attempt.evicted_us == self._now_us - holding.granted_us:
            self._plan(name, holding, attempt.late_steps)
        self._plan_end(name, holding)
