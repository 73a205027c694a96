"""Effects of events on agents: stops and signals that the leader sends, whichever server committed the event."""

from aliquot.core.transitions import unstopped
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import KernelId, SessionId
from aliquot_schema.resources.leases import Kernel
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

    def begin(self) -> None:
        """Subscribe to the journal."""
        self._journal.listeners.append(self._collect)
        self._journal.settled.append(self._send)

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

    def _send(self) -> None:
        for session_id in self._signalled:
            self._send_signal(self._state.sessions.get(session_id))
        for kernel_id in self._stopping:
            kernel = self._state.kernels.get(kernel_id)
            if kernel is not None and kernel.state is KernelState.STOPPING:
                self._dispatch.stop([kernel], grace_ms=self._grace_ms(kernel))
        self._signalled.clear()
        self._stopping.clear()

    def _send_signal(self, session: Session | None) -> None:
        if session is not None and session.spec.checkpoint_signal is not None:
            self._dispatch.send_signal(unstopped(self._state.kernels_in(session)), session.spec.checkpoint_signal)

    def _grace_ms(self, kernel: Kernel) -> int | None:
        """Milliseconds of the preemption receipt, if there is no checkpoint signal; None = the configured grace."""
        session = self._state.sessions.get(kernel.session_id)
        if session is None or session.state is not SessionState.PREEMPTING or session.attempt != kernel.attempt:
            return None
        if session.spec.checkpoint_signal is not None or session.preemption is None:
            return None
        return (session.preemption.until_us - session.preemption.at_us) // 1000
