"""A draft: changes that are thought out on the present state, and committed together or not at all."""

from collections.abc import Callable
from typing import Final, TypeVar

from aliquot.service.ports import Write
from aliquot.service.state import State, next_version
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.events import Record
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId, SlotName
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.sessions import Session

R = TypeVar("R", Session, Kernel, Lease, Agent, KnownSlot)

_ENTITY: Final[dict[type, str]] = {
    Session: "session",
    Kernel: "kernel",
    Lease: "lease",
    Agent: "agent",
    KnownSlot: "slot",
}


class Draft:
    """Reads see the state with the draft's own writes on top of it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: dict[tuple[type, str], Record] = {}
        self.writes: list[Write] = []
        self.afterwards: list[Callable[[], None]] = []
        """Called once the draft is committed and in the state, even when the caller was canceled meanwhile."""

    def session(self, session_id: SessionId) -> Session | None:
        """A session as this draft has it."""
        own = self._own.get((Session, session_id))
        return own if isinstance(own, Session) else self._state.sessions.get(session_id)

    def kernel(self, kernel_id: KernelId) -> Kernel | None:
        """A kernel as this draft has it."""
        own = self._own.get((Kernel, kernel_id))
        return own if isinstance(own, Kernel) else self._state.kernels.get(kernel_id)

    def lease(self, lease_id: LeaseId) -> Lease | None:
        """A lease as this draft has it."""
        own = self._own.get((Lease, lease_id))
        return own if isinstance(own, Lease) else self._state.leases.get(lease_id)

    def agent(self, agent_id: AgentId) -> Agent | None:
        """An agent as this draft has it."""
        own = self._own.get((Agent, agent_id))
        return own if isinstance(own, Agent) else self._state.agents.get(agent_id)

    def slot(self, name: SlotName) -> KnownSlot | None:
        """A slot as this draft has it."""
        own = self._own.get((KnownSlot, name))
        return own if isinstance(own, KnownSlot) else self._state.slots.get(name)

    def kernels_in(self, session: Session) -> list[Kernel]:
        """The kernels of a session's newest attempt, by rank, as this draft has them."""
        known = {kernel.id: kernel for kernel in self._state.kernels_in(session)}
        for record in self._own.values():
            if isinstance(record, Kernel) and record.session_id == session.id and record.attempt == session.attempt:
                known[record.id] = record
        return sorted(known.values(), key=lambda kernel: kernel.rank)

    def put(self, record: R, what: str) -> R:
        """Insert or replace a record; `what` says what happened to it, in one word: `queued`, `granted`, ..."""
        current = self._own.get((type(record), record.id)) or self._current(record)
        written = next_version(record, current=current)
        self._own[type(record), record.id] = written
        self.writes.append(Write(record=written, kind=f"{_ENTITY[type(record)]}.{what}"))
        assert isinstance(written, type(record))
        return written

    def _current(self, record: Record) -> Record | None:
        match record:
            case Session():
                return self._state.sessions.get(record.id)
            case Kernel():
                return self._state.kernels.get(record.id)
            case Lease():
                return self._state.leases.get(record.id)
            case Agent():
                return self._state.agents.get(record.id)
            case KnownSlot():
                return self._state.slots.get(record.id)
