"""Recorded history: what happened on a real cluster between two times, apart from what its scheduler decided.

A history has the state at its beginning, the facts from outside in the order in which passes saw them, and for each
session what followed each of its starts. Times are microseconds UTC; offsets are microseconds since the grant.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Struct

from aliquot.core.allocation.occupancy import Occupancy
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, Snapshot
from aliquot.core.prediction import Workload
from aliquot_schema.ids import AgentId, NodeId, ProjectId, QuotaId, SessionId, UserId
from aliquot_schema.quotas import Quota
from aliquot_schema.states import SessionState

AFTER_US_MAX: Final = 30 * 86_400 * 1_000_000
"""A run ends this long after the record at the latest."""
WAKE_US_MAX: Final = 1_000_000
"""A pass that is due by the clock alone is at the first recorded pass within this time, as servers wake up late."""


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    ENDED = "ended"
    """With the session: it completed, failed, or was canceled while it ran."""
    INTERRUPTED = "interrupted"
    """It was queued again after a failure of the cluster, or because an operator drained its agent."""
    PREEMPTED = "preempted"
    """The scheduler preempted it."""
    OPEN = "open"
    """Not yet when the record ends."""


class HoldStep(Struct, frozen=True, kw_only=True):
    """A change of what an attempt holds, or of what is known of it."""

    offset_us: int
    """When passes saw it."""
    since_us: int
    """When it happened; of the changes that passes saw at once, the earlier one counts first."""
    released: tuple[int, ...] = ()
    """Ranks whose devices became free."""
    charged_us: int | None = None
    """Offset until which these devices are charged; None = `offset_us`."""
    started_us: int | None = None
    """Offset at which all of its kernels ran."""
    leaves_us: int | None = None
    """Offset by which it is to have left; it was asked to stop."""
    has_ended: bool = False
    """Whether the session has ended. Some ranks may hold their devices for longer."""


class RecordedAttempt(Struct, frozen=True, kw_only=True):
    """What followed one grant."""

    granted_us: int
    steps: tuple[HoldStep, ...]
    """By offset; together they release all ranks, unless it is open."""
    end: AttemptEnd
    run_us: int = 0
    """Grant to end; of an open one, to the end of the record."""
    kept_ms: int = 0
    """Run time of earlier attempts whose work it kept."""
    evicted_us: int | None = None
    """Offset of its preemption."""
    returns: PendingRow | None = None
    """How it waits again."""
    returns_us: int = 0
    """Offset at which it does."""

    @property
    def ran_us(self) -> int:
        """Grant to end, or longer than to its next wait: it had not ended by itself then."""
        return self.run_us if self.returns is None else self.returns_us + 1

    @property
    def last_release(self) -> HoldStep | None:
        """The step that releases the last rank; None of an open attempt."""
        if self.end is AttemptEnd.OPEN:
            return None
        return next((step for step in reversed(self.steps) if step.released), None)

    @property
    def early_steps(self) -> tuple[HoldStep, ...]:
        """What happened before its preemption, if it was preempted."""
        return tuple(step for step in self.steps if self.evicted_us is None or step.since_us < self.evicted_us)

    @property
    def late_steps(self) -> tuple[HoldStep, ...]:
        """What happened after its preemption."""
        return self.steps[len(self.early_steps) :]

    @property
    def leaves_in_us(self) -> int | None:
        """How long after its preemption it left, at least up to the end of the record; None = it was not preempted."""
        if self.evicted_us is None:
            return None
        last = self.last_release
        return (self.run_us if last is None else last.offset_us) - self.evicted_us

    @property
    def is_plain(self) -> bool:
        """Whether all of its ranks and its session ended at once."""
        return len({step.offset_us for step in self.steps if step.started_us is None}) <= 1


def kept_after(row: PendingRow, attempt: RecordedAttempt | None, *, evicted_us: int | None = None) -> int:
    """Run time whose work a session keeps that waits again; milliseconds.

    As recorded, if it left as it did in the record. Otherwise all of its work, if it saves its work.

    Args:
        row: as it waited before.
        evicted_us: offset of its preemption; None = its recorded interruption.
    """
    if attempt is not None and attempt.returns is not None and evicted_us in (None, attempt.evicted_us):
        return max(row.kept_ms + attempt.returns.kept_ms - attempt.kept_ms, 0)
    return row.kept_ms if row.checkpoint_ms is None else row.kept_ms + max(evicted_us or 0, 0) // 1000


class RecordedSession(Struct, frozen=True, kw_only=True):
    """A session, or a task of a job array, that waited or ran in a history."""

    name: SessionId
    owner: UserId
    project: ProjectId
    milli: int
    """Accelerators of all kernels together."""
    submitted_us: int
    attempts: tuple[RecordedAttempt, ...] = ()
    state: SessionState = SessionState.QUEUED
    """The last one recorded."""
    learned: tuple[Workload, int] | None = None
    """What its end teaches the predictor: its workload, and its run time in milliseconds; None = nothing."""
    is_amended: bool = False
    """Whether someone changed, held or released it while it waited."""
    is_run_again: bool = False
    """Whether someone ran it again after its end, so that it has no single wait."""

    @property
    def work_us(self) -> int | None:
        """How long it runs in all if it is never interrupted; None if the record does not show it."""
        if not self.attempts or self.attempts[-1].end is not AttemptEnd.ENDED:
            return None
        return self.attempts[-1].run_us + 1000 * self.attempts[-1].kept_ms


class DecisionContext(Struct, frozen=True, kw_only=True):
    """Everything else that decisions depend on, as passes saw it from a time on."""

    agents: tuple[AgentRow, ...]
    quotas: Mapping[QuotaId, Quota]
    policy: Policy
    """The recorded policy."""
    asked: Mapping[Request, int]
    foreign: Mapping[NodeId, Occupancy]
    """Devices held, but not by sessions."""
    dependencies: Mapping[SessionId, SessionState]
    is_stopped: bool = False
    """Whether an operator has stopped scheduling."""


class RecordedFact(Struct, frozen=True, kw_only=True):
    """Something that passes saw at a time; exactly one of the other fields is set."""

    at_us: int
    arrival: PendingRow | None = None
    """A submission."""
    withdrawal: SessionId | None = None
    """A waiting session was canceled, or failed before it started."""
    amendment: PendingRow | None = None
    """A waiting session was changed, held or released."""
    surroundings: DecisionContext | None = None


class RecordedHistory(Struct, frozen=True, kw_only=True, dict=True):
    """See the module."""

    since_us: int
    """Sessions submitted from then on are counted."""
    until_us: int
    """End of the record."""
    begins_us: int
    """When `snapshot` was taken, at or before `since_us`."""
    snapshot: Snapshot
    surroundings: DecisionContext
    """At the beginning."""
    facts: tuple[RecordedFact, ...]
    """By time."""
    sessions: Mapping[SessionId, RecordedSession]
    passes_us: tuple[int, ...]
    """Times of the recorded passes."""
    gaps_us: tuple[tuple[int, int], ...] = ()
    """Spans (from, until) without a pass, as the server was stopped or its clock was set; by time."""
    outdated: Mapping[int, frozenset[SessionId]] = msgspec.field(default_factory=dict)
    """By time of a pass: sessions for which it decided something that was no longer possible."""
    lessons: tuple[tuple[Workload, int], ...] = ()
    """Runs that ended before the beginning, in order: (workload, run time in milliseconds)."""
    notes: tuple[str, ...] = ()
    """What is missing in the record, as sentences."""

    def agent(self, name: AgentId | None) -> AgentRow | None:
        """An agent as it was when it was first there in this period; None if it never was."""
        around = (self.surroundings, *(fact.surroundings for fact in self.facts if fact.surroundings is not None))
        return next((agent for one in around for agent in one.agents if agent.id == name), None)

    def pass_after(self, at_us: int) -> int | None:
        """Time of the first recorded pass after a time; None if there is none."""
        at = bisect_right(self.passes_us, at_us)
        return self.passes_us[at] if at < len(self.passes_us) else None

    def pass_due_at(self, wake_us: int, *, now_us: int) -> int:
        """When a pass takes place that is due by the clock alone. Due times are exact to a millisecond."""
        recorded_us = self.pass_after(max(wake_us - 1000, now_us))
        return wake_us if recorded_us is None or recorded_us > wake_us + WAKE_US_MAX else recorded_us

    @cached_property
    def counted(self) -> tuple[RecordedSession, ...]:
        """Sessions that were submitted in time, started and ended, and were not run again; by submission."""
        found = [
            session
            for session in self.sessions.values()
            if session.submitted_us >= self.since_us and session.work_us is not None and not session.is_run_again
        ]
        return tuple(sorted(found, key=lambda session: (session.submitted_us, session.name)))

    @cached_property
    def work(self) -> int:
        """A measure of the work of a run: facts, and sessions and tasks that start or leave the queue."""
        rows = [*self.snapshot.queue, *(fact.arrival for fact in self.facts if fact.arrival is not None)]
        return len(self.facts) + sum(1 if row.tasks is None else len(row.tasks) for row in rows)

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing but submissions, cancellations and ends happened, and each session released all at once."""
        return all(
            fact.amendment is None and (fact.surroundings is None or self._is_like(fact.surroundings))
            for fact in self.facts
        ) and all(attempt.is_plain for session in self.sessions.values() for attempt in session.attempts)

    def _is_like(self, other: DecisionContext) -> bool:
        """Whether other surroundings differ from the first at most in the mix of requests."""
        first = self.surroundings
        return (
            other.agents == first.agents
            and other.quotas == first.quotas
            and other.policy == first.policy
            and other.foreign == first.foreign
            and not other.dependencies
            and not other.is_stopped
        )


@dataclass(slots=True, kw_only=True)
class ClusterLoad:
    """Use of the cluster over time: columns of equal length, one entry per pass, valid until the next."""

    at_us: list[int] = field(default_factory=list)
    held_milli: list[int] = field(default_factory=list)
    """Accelerators that sessions hold."""
    capacity_milli: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """Sessions in the queue."""


class HistoryOutcome(Struct, frozen=True, kw_only=True):
    """What happened in a run. Times are microseconds UTC."""

    granted_us: Mapping[SessionId, int]
    """First grant of each session and task that started."""
    ended_us: Mapping[SessionId, int]
    preemptions: Mapping[SessionId, int]
    lost_ms: Mapping[SessionId, int]
    """Run time lost by preemption."""
    assumed: frozenset[SessionId]
    """Started sessions whose run time is not recorded."""
    load: ClusterLoad
    exact: bool
    """Whether every pass was one of `decide`; False = of the fast engine, which decides the same."""


class HistoryRunSettings(Struct, frozen=True, kw_only=True):
    """What is different from the record."""

    policy: Policy | None = None
    """None = the policies of the time."""
    agents: Callable[[tuple[AgentRow, ...]], tuple[AgentRow, ...]] = lambda agents: agents
    """Changes the cluster."""
    quotas: Callable[[Mapping[QuotaId, Quota]], Mapping[QuotaId, Quota]] = lambda quotas: quotas
    """Changes the quotas."""
    exact: bool = False
    """Whether every pass is one of `decide`, even where the fast engine would give the same result."""
