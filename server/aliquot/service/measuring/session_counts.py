"""Counts of sessions: starts, ends by outcome, waits and run times, as the log tells of them.

A session is one that was submitted, or a task of a job array; the array itself is none.
"""

from collections.abc import Callable
from typing import Final

from aliquot.service.measuring.tallies import LONG_S, Histogram, Tally
from aliquot_schema.events import Event
from aliquot_schema.sessions import PreemptionCause, Session

FAILURES: Final = frozenset(
    {
        "agent_lost",
        "dependency",
        "exec_failed",
        "exit_code",
        "kernel_lost",
        "launch_refused",
        "lease_expired",
        "not_placed",
        "signal",
        "time_limit",
    }
)
"""Codes of `Failure` that are told apart; any other is `other`."""
OUTCOMES: Final = ("completed", "failed", "canceled")


class SessionCounts:
    """What happened to sessions."""

    def __init__(self) -> None:
        self.submitted = Tally()
        self.started = Tally()
        self.ended = Tally("outcome")
        self.failures = Tally("reason")
        """Of those that failed, why."""
        self.requeues = Tally()
        self.preemptions = Tally("cause")
        self.waits = Histogram(LONG_S)
        """From submission to the first grant, in seconds; work outside does not wait."""
        self.durations = Histogram(LONG_S, "outcome")
        """From the start of the last attempt to the end, in seconds."""
        for tally in (self.submitted, self.started, self.requeues):
            tally.begin()
        for outcome in OUTCOMES:
            self.ended.begin(outcome)
            self.durations.begin(outcome)
        for reason in (*sorted(FAILURES), "other"):
            self.failures.begin(reason)
        for cause in PreemptionCause:
            self.preemptions.begin(cause)

    def take(self, event: Event) -> None:
        """Take in what happened."""
        session = event.record
        if isinstance(session, Session) and session.tasks is None and (count := _COUNTED.get(event.kind)):
            count(self, session)

    def _submit(self, session: Session) -> None:
        if session.version == 1:
            self.submitted.add()

    def _schedule(self, session: Session) -> None:
        if session.version == 1:  # a task of an array is split off when it is given its devices
            self.submitted.add()
        if session.attempt == 1 and session.scheduled_us is not None:
            self.waits.observe(max(0, session.scheduled_us - session.queued_us) / 1e6)

    def _start(self, session: Session) -> None:
        self.started.add()

    def _requeue(self, session: Session) -> None:
        self.requeues.add()

    def _preempt(self, session: Session) -> None:
        if session.preemption is not None:
            self.preemptions.add(session.preemption.cause)

    def _end(self, session: Session) -> None:
        self.ended.add(session.state)
        if session.failure is not None:
            self.failures.add(session.failure.code if session.failure.code in FAILURES else "other")
        if session.started_us is not None and session.ended_us is not None:
            self.durations.observe(max(0, session.ended_us - session.started_us) / 1e6, session.state)


_COUNTED: Final[dict[str, Callable[[SessionCounts, Session], None]]] = {
    "session.queued": SessionCounts._submit,
    "session.held": SessionCounts._submit,
    "session.scheduled": SessionCounts._schedule,
    "session.running": SessionCounts._start,
    "session.requeued": SessionCounts._requeue,
    "session.preempting": SessionCounts._preempt,
    **{f"session.{outcome}": SessionCounts._end for outcome in (*OUTCOMES, "expired")},
}
