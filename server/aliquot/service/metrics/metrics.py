"""Leader metrics: sessions by outcome, wait and run times, reservation accuracy, and device time.

Counted only while this server leads, in memory. A job array does not count as a session; its tasks do. Device time is
summed at every reading, for the time since the previous one, and restarts at 0 with each term.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aliquot.service.metrics.counters import LONG_S, Histogram, PassMeasures, Promises, Tally
from aliquot.service.state.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.resources.devices import DeviceReading
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
"""Label values for `Failure` codes; all others count as `other`."""
OUTCOMES: Final = ("completed", "failed", "canceled")


class SessionCounts:
    """Counters of sessions."""

    def __init__(self) -> None:
        self.submitted = Tally()
        self.started = Tally()
        self.ended = Tally("outcome")
        self.failures = Tally("reason")
        """Failed sessions by failure code."""
        self.requeues = Tally()
        self.preemptions = Tally("cause")
        self.waits = Histogram(LONG_S)
        """From submission to the first grant, in seconds; without external allocations, which never wait."""
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
        """Count an event."""
        session = event.record
        if isinstance(session, Session) and session.tasks is None and (count := _COUNTED.get(event.kind)):
            count(self, session)

    def _submit(self, session: Session) -> None:
        if session.version == 1:
            self.submitted.add()

    def _schedule(self, session: Session) -> None:
        if session.version == 1:  # an array task gets its session when it is scheduled
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


IDLE_PCT: Final = 5.0
"""Utilization below which a device is idle, in percent."""
GAP_S_MAX: Final = 30.0
"""Longest time attributed to one reading; the rest of a longer gap was not measured."""


@dataclass(slots=True)
class DeviceSeconds:
    """Time of one device, in seconds."""

    held: float = 0.0
    """Weighted by the fraction held: half a device for an hour counts half an hour."""
    used: float = 0.0
    """Weighted by the utilization, at most by the fraction held."""
    idle: float = 0.0
    """While any part was held and the device was idle; unweighted."""
    measured_at: float = 0.0


class DeviceTime:
    """Time of all measured devices. Devices that an agent no longer has are dropped: slices get ever new names."""

    def __init__(self) -> None:
        self._spent: dict[AgentId, dict[DeviceId, DeviceSeconds]] = {}

    def measure(self, agent_id: AgentId, readings: Iterable[DeviceReading], *, state: State, now_s: float) -> None:
        """Add the readings of an agent.

        Args:
            now_s: monotonic time, in seconds.
        """
        agent = state.agents.get(agent_id)
        if agent is None:
            return
        devices, used = state.layouts[agent_id].devices, state.used.get(agent.node_id, {})
        own = self._spent.setdefault(agent_id, {})
        for gone in own.keys() - devices.keys():
            del own[gone]
        for reading in readings:
            device = devices.get(reading.device_id)
            if device is None or reading.utilization_pct is None:
                continue
            spent = own.get(device.id)
            if spent is None:
                own[device.id] = DeviceSeconds(measured_at=now_s)
                continue
            since_s, spent.measured_at = min(now_s - spent.measured_at, GAP_S_MAX), now_s
            held = min(used.get(device.id, 0), device.budget) / device.budget
            if held:
                spent.held += since_s * held
                spent.used += since_s * min(held, reading.utilization_pct / 100)
                if reading.utilization_pct < IDLE_PCT:
                    spent.idle += since_s

    def clear(self) -> None:
        """Reset: another server leads."""
        self._spent.clear()

    def of(self, agent_id: AgentId, device_id: DeviceId) -> DeviceSeconds:
        """The time of a device so far."""
        return self._spent.get(agent_id, {}).get(device_id) or DeviceSeconds()


class Measures:
    """All leader metrics; updated by events, passes and readings."""

    def __init__(self) -> None:
        self.sessions = SessionCounts()
        self.passes = PassMeasures()
        self.promises = Promises()
        self.devices = DeviceTime()

    def take(self, event: Event) -> None:
        """Count an event while this server leads."""
        self.sessions.take(event)
        if event.kind == "session.scheduled" and isinstance(event.record, Session):
            self.promises.start(event.record)

    def end_term(self) -> None:
        """Another server leads: totals stay, open reservations and device time are dropped."""
        self.promises.forget()
        self.devices.clear()
