"""Effects of events on a leader, whichever server committed them: stops and signals to agents, and log lines.

Log lines contain ids, amounts and codes only, never commands, environments or output.
"""

import logging
from typing import Final

from aliquot.core.transitions import unstopped
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.views.terms import allocated_gpus
from aliquot_schema.events import Event
from aliquot_schema.ids import KernelId, SessionId
from aliquot_schema.resources.leases import EndEvidence, Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState


class EventEffects:
    """Sends stops and signals after the whole commit is in the state. `reconcile` repeats what an agent missed."""

    def __init__(self, *, state: State, journal: Journal, dispatch: Dispatch) -> None:
        self._state = state
        self._journal = journal
        self._dispatch = dispatch
        self._stopping: dict[KernelId, None] = {}
        self._signalled: dict[SessionId, None] = {}
        self._extended: dict[SessionId, None] = {}

    def begin(self) -> None:
        """Subscribe to the journal."""
        kinds = ("kernel.stopping", "session.canceled", "session.preempting", "session.extended")
        self._journal.subscribe(self._collect, to=kinds, settled=self._send)

    def _collect(self, event: Event) -> None:
        match event.kind, event.record:
            case "kernel.stopping", Kernel(id=kernel_id):
                self._stopping[kernel_id] = None
            case "session.canceled", Session(id=session_id):
                # Kernels that are stopping already may have a longer grace than a cancel gives.
                kernels = self._state.kernels_of.get(session_id, {}).values()
                self._stopping.update((kernel.id, None) for kernel in kernels if kernel.state is KernelState.STOPPING)
            case "session.preempting", Session(id=session_id):
                self._signalled[session_id] = None
            case "session.extended", Session(id=session_id):
                self._extended[session_id] = None

    def _send(self) -> None:
        for session_id in self._signalled:
            self._send_signal(self._state.sessions.get(session_id))
        for session_id in self._extended:
            self._send_limit(self._state.sessions.get(session_id))
        for kernel_id in self._stopping:
            kernel = self._state.kernels.get(kernel_id)
            if kernel is not None and kernel.state is KernelState.STOPPING:
                self._dispatch.stop([kernel], grace_ms=self._grace_ms(kernel))
        self._signalled.clear()
        self._extended.clear()
        self._stopping.clear()

    def _send_signal(self, session: Session | None) -> None:
        if session is not None and session.spec.checkpoint_signal is not None:
            self._dispatch.send_signal(unstopped(self._state.kernels_in(session)), session.spec.checkpoint_signal)

    def _send_limit(self, session: Session | None) -> None:
        if session is not None and session.spec.time_limit_ms is not None:
            limit_ms = session.spec.time_limit_ms
            self._dispatch.set_limit(unstopped(self._state.kernels_in(session)), time_limit_ms=limit_ms)

    def _grace_ms(self, kernel: Kernel) -> int | None:
        """Milliseconds of the preemption receipt, if there is no checkpoint signal; None = the configured grace."""
        session = self._state.sessions.get(kernel.session_id)
        if session is None or session.state is not SessionState.PREEMPTING or session.attempt != kernel.attempt:
            return None
        if session.spec.checkpoint_signal is not None or session.preemption is None:
            return None
        return (session.preemption.until_us - session.preemption.at_us) // 1000


log: Final = logging.getLogger("aliquot.sessions")


class SessionNews:
    """Logs allocations and failed allocations, once the state contains the whole commit."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._allocated: list[SessionId] = []

    def begin(self, journal: Journal) -> None:
        """Subscribe to the journal."""
        kinds = ("session.scheduled", "session.running", "session.failed", "lease.released")
        journal.subscribe(self.take, to=kinds, settled=self.settle)

    def take(self, event: Event) -> None:
        """Handle an event while this server leads."""
        record = event.record
        if isinstance(record, Session):
            if event.kind == "session.scheduled" or (event.kind == "session.running" and record.is_external_allocation):
                self._allocated.append(record.id)
            elif event.kind == "session.failed" and record.started_us is None and record.tasks is None:
                self._log_failed(record)
        elif isinstance(record, Lease) and record.evidence is EndEvidence.REFUSED and event.kind == "lease.released":
            self._log_refused(record)

    def settle(self) -> None:
        """The state contains all events of a commit."""
        allocated, self._allocated = self._allocated, []
        if log.isEnabledFor(logging.INFO):
            for session_id in allocated:
                session = self._state.sessions.get(session_id)
                if session is not None:
                    self._log_allocated(session)

    def _log_allocated(self, session: Session) -> None:
        gpus = allocated_gpus(self._state, session)
        wait_s = max(0, (session.scheduled_us or 0) - session.queued_us) / 1e6
        fields = {
            "event": "session_allocated_devices",
            "session_id": session.id,
            "user": session.owner,
            "attempt": session.attempt,
            "devices": [gpu.gpu_id for gpu in gpus],
            "shares": [gpu.share for gpu in gpus],
            "agents": sorted({kernel.agent_id for kernel in self._state.kernels_in(session)}),
            "wait_s": round(wait_s, 3),
        }
        log.info("session allocated devices", extra=fields)

    def _log_failed(self, session: Session) -> None:
        reason = "unknown" if session.failure is None else session.failure.code
        fields = {"event": "allocation_failed", "session_id": session.id, "user": session.owner, "reason": reason}
        log.warning("allocation failed", extra={**fields, "attempt": session.attempt})

    def _log_refused(self, lease: Lease) -> None:
        fields = {"event": "allocation_failed", "session_id": lease.session_id, "user": lease.owner}
        log.warning("allocation failed", extra={**fields, "reason": "launch_refused", "agent_id": lease.agent_id})
