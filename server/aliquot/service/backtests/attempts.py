"""Attempt log: what each recorded session held and when, from the events of its kernels and leases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aliquot.core.model.snapshot import PendingRow, RunningRow
from aliquot.core.prediction import Workload
from aliquot.core.simulation.recorded_history import AttemptEnd, HoldStep, RecordedAttempt, RecordedSession
from aliquot.core.workloads import ran_ms, workload_of
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import PreemptionCause, Session
from aliquot_schema.states import KernelState, SessionState

BY_HAND: Final = frozenset({PreemptionCause.DRAIN, PreemptionCause.DEVICE})
"""Causes of preemptions that are not decisions of the scheduler."""


class AttemptRecord:
    """One attempt while it is recorded."""

    def __init__(self, *, granted_us: int, kept_ms: int) -> None:
        self.granted_us: Final = granted_us
        self.is_leaving = False
        self._kept_ms = kept_ms
        self._ranks: dict[str, int] = {}
        """Rank of each kernel or lease that holds devices."""
        self._steps: list[HoldStep] = []
        self._evicted_us: int | None = None
        self._by_hand = False
        self._has_started = False
        self._returns: PendingRow | None = None
        self._returns_us = 0
        self._ended_us: int | None = None

    def take(self, name: str, rank: int | None = None) -> None:
        """A kernel or lease holds devices; None = it is the next rank."""
        self._ranks.setdefault(name, len(self._ranks) if rank is None else rank)

    def release(self, name: str, *, at_us: int, event_us: int, charged_us: int) -> None:
        """A kernel or lease holds nothing any more."""
        rank = self._ranks.pop(name, None)
        if rank is not None:
            self._step(at_us, event_us, released=(rank,), charged_us=charged_us - self.granted_us)

    def follow(self, session: Session, *, at_us: int, event_us: int) -> None:
        """The session has changed."""
        started_us, preemption = session.started_us, session.preemption
        if started_us is not None and not self._has_started and started_us >= self.granted_us:
            self._has_started = True
            self._step(at_us, event_us, started_us=started_us - self.granted_us)
        if session.state is SessionState.PREEMPTING and preemption is not None:
            self._evicted_us, self._by_hand = preemption.at_us, preemption.cause in BY_HAND
        if session.is_ended and session.ended_us is not None:
            self.end(session.ended_us, at_us=at_us, event_us=event_us)

    def end(self, ended_us: int, *, at_us: int, event_us: int) -> None:
        """The session has ended."""
        if self._ended_us is None:
            self._ended_us = ended_us
            self._step(at_us, event_us, has_ended=True)

    def leave(self, ends_us: int, *, at_us: int) -> None:
        """The session was asked to stop."""
        if not self.is_leaving:
            self.is_leaving = True
            self._step(at_us, at_us, leaves_us=ends_us - self.granted_us)

    def wait_again(self, row: PendingRow, *, at_us: int) -> None:
        """The session is in the queue again."""
        self._returns, self._returns_us = row, at_us

    def attempt(self, *, until_us: int) -> RecordedAttempt:
        """The attempt as far as it is recorded."""
        if self._returns is not None:
            is_preempted = self._evicted_us is not None and not self._by_hand
            end = AttemptEnd.PREEMPTED if is_preempted else AttemptEnd.INTERRUPTED
        else:
            end = AttemptEnd.OPEN if self._ranks or self._ended_us is None else AttemptEnd.ENDED
        ended_us = until_us if self._ended_us is None or end is AttemptEnd.OPEN else self._ended_us
        return RecordedAttempt(
            granted_us=self.granted_us,
            steps=tuple(self._steps),
            end=end,
            run_us=max(ended_us - self.granted_us, 1),
            kept_ms=self._kept_ms,
            evicted_us=None if self._evicted_us is None else self._evicted_us - self.granted_us,
            returns=self._returns,
            returns_us=self._returns_us - self.granted_us,
        )

    def _step(self, at_us: int, event_us: int, **change: Any) -> None:
        offset_us = max(at_us - self.granted_us, 1)
        self._steps.append(HoldStep(offset_us=offset_us, since_us=min(event_us - self.granted_us, offset_us), **change))


@dataclass(slots=True, kw_only=True)
class _SessionRecord:
    """A session while it is recorded."""

    session: Session
    workload: Workload
    holds: dict[int, AttemptRecord] = field(default_factory=dict)
    """By number of the attempt."""
    joined_at: int = 0
    """Number of attempts when it last began to wait."""
    is_amended: bool = False
    is_run_again: bool = False

    def change(self, session: Session) -> None:
        self.is_run_again = self.is_run_again or (self.session.is_ended and not session.is_ended)
        self.session = session

    def wait(self) -> None:
        self.joined_at = len(self.holds)

    def amend(self) -> None:
        self.is_amended = True

    @property
    def last(self) -> AttemptRecord | None:
        """The last attempt."""
        return self.holds[max(self.holds)] if self.holds else None


class AttemptLog:
    """All sessions of a record."""

    def __init__(self) -> None:
        self._known: dict[SessionId, _SessionRecord] = {}
        self._released_us: Mapping[str, int] = {}
        """Ends of the leases that the present events release."""

    def on_event(self, events: Sequence[Event], *, at_us: int, planned: tuple[int, int]) -> None:
        """Take in events that passes see from a time on.

        Args:
            planned: (number, time) of the pass whose plan they may carry out.
        """
        leases = [event.record for event in events if isinstance(event.record, Lease)]
        self._released_us = {lease.id: lease.released_us for lease in leases if lease.released_us is not None}
        for event in events:
            pass_us = planned[1] if event.pass_number == planned[0] else None
            self.note(event.record, at_us=at_us, event_us=event.at_us, pass_us=pass_us)

    def note(self, record: object, *, at_us: int, event_us: int, pass_us: int | None = None) -> None:
        """Take in one record.

        Args:
            pass_us: time of the pass that granted it, if it is new; None = as it says.
        """
        match record:
            case Session() as session:
                self._note_session(session, at_us=at_us, event_us=event_us)
            case Kernel() as kernel:
                self._note_kernel(kernel, at_us=at_us, event_us=event_us, pass_us=pass_us)
            case Lease(kernel_id=None) as lease:
                self._note_lease(lease, at_us=at_us, event_us=event_us, pass_us=pass_us)

    def joins(self, row: PendingRow, *, at_us: int) -> bool:
        """A session begins to wait; returns whether it is new."""
        known = self._known[row.session_id]
        known.wait()
        if known.last is None:
            return True
        known.last.wait_again(row, at_us=at_us)
        return False

    def amend(self, name: SessionId) -> None:
        """Someone changed a waiting session."""
        self._known[name].amend()

    def is_withdrawn(self, row: PendingRow) -> bool:
        """Whether a session that waits no longer has left the queue without a start; of an array, one of its tasks.

        Args:
            row: how it waited.
        """
        known = self._known[row.session_id]
        if not known.session.is_ended:
            return False
        if row.tasks is not None:
            return any(task_id(row.session_id, index=index) not in self._known for index in row.tasks)
        return len(known.holds) == known.joined_at

    def look(self, running: Iterable[RunningRow], *, at_us: int) -> None:
        """Note which of the running sessions are leaving."""
        for row in running:
            known = self._known.get(row.session_id) if row.is_leaving else None
            if known is not None and known.last is not None:
                known.last.leave(row.ends_us, at_us=at_us)

    def sessions(self, *, until_us: int) -> dict[SessionId, RecordedSession]:
        """All sessions as far as they are recorded."""
        return {name: _recorded(known, until_us) for name, known in self._known.items()}

    def _note_session(self, session: Session, *, at_us: int, event_us: int) -> None:
        known = self._known.get(session.id)
        if known is None:
            known = self._known[session.id] = _SessionRecord(session=session, workload=workload_of(session))
        known.change(session)
        hold = known.holds.get(_number(session))
        if hold is not None:
            hold.follow(session, at_us=at_us, event_us=event_us)

    def _note_kernel(self, kernel: Kernel, *, at_us: int, event_us: int, pass_us: int | None) -> None:
        known = self._known.get(kernel.session_id)
        if known is None:
            return
        hold = known.holds.get(kernel.attempt)
        if hold is None:
            hold = known.holds[kernel.attempt] = _new(known, kernel.granted_us if pass_us is None else pass_us)
            hold.follow(known.session, at_us=at_us, event_us=event_us)
        if kernel.state is KernelState.EXITED:
            self._release(hold, kernel.id, at_us=at_us, event_us=event_us)
        else:
            hold.take(kernel.id, kernel.rank)

    def _note_lease(self, lease: Lease, *, at_us: int, event_us: int, pass_us: int | None) -> None:
        """Note a lease of an external allocation, which has no kernels."""
        known = None if lease.session_id is None else self._known.get(lease.session_id)
        if known is None:
            return
        number = _number(known.session)
        hold = known.holds.get(number)
        if hold is None:
            hold = known.holds[number] = _new(known, lease.granted_us if pass_us is None else pass_us)
        if lease.released_us is not None:
            hold.end(lease.released_us, at_us=at_us, event_us=event_us)
            self._release(hold, lease.id, at_us=at_us, event_us=event_us)
        else:
            hold.take(lease.id)

    def _release(self, hold: AttemptRecord, name: str, *, at_us: int, event_us: int) -> None:
        hold.release(name, at_us=at_us, event_us=event_us, charged_us=self._released_us.get(name, at_us))


def _new(known: _SessionRecord, granted_us: int) -> AttemptRecord:
    return AttemptRecord(granted_us=granted_us, kept_ms=known.session.kept_ms)


def _number(session: Session) -> int:
    """The number of the present attempt; external allocations have one."""
    return 1 if session.is_external_allocation else session.attempt


def _recorded(known: _SessionRecord, until_us: int) -> RecordedSession:
    session = known.session
    duration_ms = ran_ms(session) if session.is_ended else None
    return RecordedSession(
        name=session.id,
        owner=session.owner,
        project=session.project,
        milli=known.workload.milli,
        submitted_us=session.queued_us,
        attempts=tuple(known.holds[number].attempt(until_us=until_us) for number in sorted(known.holds)),
        state=session.state,
        learned=None if duration_ms is None else (known.workload, duration_ms),
        is_amended=known.is_amended,
        is_run_again=known.is_run_again,
    )
