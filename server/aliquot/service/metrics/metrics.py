"""Leader metrics: sessions by outcome, wait and run times, reservation accuracy, and device time.

Counted only while this server leads, in memory. A job array does not count as a session; its tasks do. Device time is
summed at every reading, for the time since the previous one, and restarts at 0 with each term.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aliquot.service.metrics.counters import (
    LONG_S,
    ForecastMeasures,
    PassMeasures,
    ReservationAccuracy,
    counter,
    export_zeros,
    histogram,
)
from aliquot.service.state.idle_cases import case_of
from aliquot.service.state.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.orchestration import Action
from aliquot_schema.policies import IdleAction, IdleStep
from aliquot_schema.resources.devices import DeviceReading
from aliquot_schema.sessions import PreemptionCause, Session

FAILURES: Final = frozenset(
    {
        "agent_lost",
        "dependency",
        "exec_failed",
        "exit_code",
        "idle",
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
        self.submitted = counter("sessions_submitted", "Sessions submitted, and tasks of job arrays begun.")
        self.started = counter("sessions_started", "Attempts of sessions that began to run.")
        self.ended = counter("sessions_ended", "Sessions that ended, by outcome.", "outcome")
        self.failures = counter("session_failures", "Sessions that failed, by reason.", "reason")
        self.requeues = counter("session_requeues", "Attempts after which the session was queued again.")
        self.preemptions = counter("preemptions", "Preempted sessions, by cause.", "cause")
        self.idle_steps = counter(
            "idle_steps", "Steps for sessions that do not use their GPUs, by the policy's action.", "action", "step"
        )
        for action in (IdleAction.OBSERVE, IdleAction.TELL, IdleAction.PREEMPT, IdleAction.END):
            for step in IdleStep:
                self.idle_steps.labels(action, step)
        # External allocations are left out, as they never wait.
        self.waits = histogram("session_wait_seconds", "From submission to the first grant of devices.", LONG_S)
        text = "From the start of the last attempt to the end, by outcome."
        self.durations = histogram("session_duration_seconds", text, LONG_S, "outcome")
        export_zeros(self.ended, OUTCOMES)
        export_zeros(self.durations, OUTCOMES)
        export_zeros(self.failures, (*sorted(FAILURES), "other"))
        export_zeros(self.preemptions, PreemptionCause)

    def take(self, event: Event) -> None:
        """Count an event."""
        session = event.record
        if isinstance(session, Action) and event.kind.startswith("action.idle_"):
            case = case_of(session)
            self.idle_steps.labels(case.action, case.step).inc()
        if isinstance(session, Session) and session.tasks is None and (count := _COUNTED.get(event.kind)):
            count(self, session)

    def _submit(self, session: Session) -> None:
        if session.version == 1:
            self.submitted.inc()

    def _schedule(self, session: Session) -> None:
        if session.version == 1:  # an array task gets its session when it is scheduled
            self.submitted.inc()
        if session.attempt == 1 and session.scheduled_us is not None:
            self.waits.observe(max(0, session.scheduled_us - session.queued_us) / 1e6)

    def _start(self, session: Session) -> None:
        self.started.inc()

    def _requeue(self, session: Session) -> None:
        self.requeues.inc()

    def _preempt(self, session: Session) -> None:
        if session.preemption is not None:
            self.preemptions.labels(session.preemption.cause).inc()

    def _end(self, session: Session) -> None:
        self.ended.labels(session.state).inc()
        if session.failure is not None:
            code = session.failure.code if session.failure.code in FAILURES else "other"
            self.failures.labels(code).inc()
        if session.started_us is not None and session.ended_us is not None:
            took_s = max(0, session.ended_us - session.started_us) / 1e6
            self.durations.labels(session.state).observe(took_s)


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
        self.promises = ReservationAccuracy()
        self.forecasts = ForecastMeasures()
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
