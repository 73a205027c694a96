"""The state in memory: the fold of everything committed so far, with the indexes that decisions and questions need."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.allocation.occupancy import occupancy_of
from aliquot.core.snapshot import PendingRow, Request, request_of
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.devices import DeviceReading
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId, NodeId, SessionId, SlotName, UserId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState

ENDED_KEPT: Final = 10_000
"""Sessions that ended are kept in memory up to this many; older ones are read from the store."""


class State:
    """What is true at event number `revision`. Changed by `apply` alone, but for what is not durable:
    readings, which agents can be asked, and the verdicts of the last pass."""

    def __init__(self, *, ended_kept: int = ENDED_KEPT) -> None:
        self.revision = 0
        self.sessions: dict[SessionId, Session] = {}
        self.kernels: dict[KernelId, Kernel] = {}
        self.leases: dict[LeaseId, Lease] = {}
        self.agents: dict[AgentId, Agent] = {}
        self.layouts: dict[AgentId, DeviceLayout] = {}
        self.slots: dict[SlotName, KnownSlot] = {}
        self.pending: dict[SessionId, PendingRow] = {}
        self.kernels_of: dict[SessionId, dict[KernelId, Kernel]] = {}
        self.open_leases: dict[NodeId, dict[LeaseId, Lease]] = {}
        self.used: dict[NodeId, Mapping[DeviceId, int]] = {}
        """Budget units held on each physical device; a node's mapping is replaced, never changed."""
        self.asked: Counter[Request] = Counter()
        """How often each request was made, by the sessions in memory."""
        self.ended_complete = True
        self.reachable: set[AgentId] = set()
        self.readings: dict[tuple[AgentId, DeviceId], DeviceReading] = {}
        self.verdicts: Mapping[SessionId, Verdict] = {}
        """Of the last pass, in queue order; see `judge`."""
        self._positions: dict[SessionId, int] = {}
        self._waited_for: Counter[SessionId] = Counter()
        """How many pending sessions depend on each: these are kept in memory after their end."""
        self._by_key: dict[tuple[UserId, str], SessionId] = {}
        self._ended: dict[SessionId, None] = {}
        self._ended_kept = ended_kept

    def load(self, records: Iterable[Record], *, revision: int, ended_complete: bool) -> None:
        """Begin from what the store holds."""
        order = {Agent: 0, KnownSlot: 1, Lease: 2, Kernel: 3, Session: 4}
        for record in sorted(records, key=lambda record: (order[type(record)], record.id)):
            self._put(record)
        self.revision = revision
        self.ended_complete = ended_complete and self.ended_complete

    def recall(self, records: Iterable[Record]) -> None:
        """Take an ended session back into memory, with what belongs to it; nothing happens to one that is there."""
        records = tuple(records)
        if not any(isinstance(record, Session) and record.id in self.sessions for record in records):
            self.load(records, revision=self.revision, ended_complete=self.ended_complete)

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        assert event.number == self.revision + 1, f"event {event.number} after {self.revision}"
        self._put(event.record)
        self.revision = event.number

    def judge(self, verdicts: Mapping[SessionId, Verdict]) -> None:
        """Remember why each session waits, and in which order they are looked at."""
        self.verdicts = verdicts
        self._positions = {session_id: position for position, session_id in enumerate(verdicts, start=1)}

    def queue(self) -> list[SessionId]:
        """Pending sessions in the order in which the allocator looks; those no pass has seen yet stand last."""
        seen = [session_id for session_id in self.verdicts if session_id in self.pending]
        fresh = [session_id for session_id in self.pending if session_id not in self.verdicts]
        return seen + fresh

    def position(self, session_id: SessionId) -> int | None:
        """The place in the queue that the last pass gave a session, from 1; None when it does not wait."""
        return self._positions.get(session_id) if session_id in self.pending else None

    def by_key(self, owner: UserId, key: str) -> Session | None:
        """The session that was created with this idempotency key."""
        found = self._by_key.get((owner, key))
        return self.sessions[found] if found is not None else None

    def node_of(self, agent_id: AgentId) -> NodeId:
        """The node an agent is on."""
        return self.agents[agent_id].node_id

    def kernels_in(self, session: Session) -> list[Kernel]:
        """The kernels of a session's newest attempt, by rank."""
        found = self.kernels_of.get(session.id, {}).values()
        return sorted((kernel for kernel in found if kernel.attempt == session.attempt), key=lambda kernel: kernel.rank)

    def holds_devices(self, session_id: SessionId) -> bool:
        """Whether any kernel of any attempt still holds its devices."""
        return any(kernel.state is not KernelState.EXITED for kernel in self.kernels_of.get(session_id, {}).values())

    def is_held(self, agent_id: AgentId) -> bool:
        """Whether anybody holds something of an agent."""
        agent = self.agents.get(agent_id)
        return agent is not None and any(lease.agent_id == agent_id for lease in self.leases_on(agent.node_id))

    def leases_on(self, node_id: NodeId) -> Iterable[Lease]:
        """Leases on a node that are not released."""
        return self.open_leases.get(node_id, {}).values()

    def _put(self, record: Record) -> None:
        writer: Callable[..., None] = _WRITERS[type(record)]
        writer(self, record)

    def _put_session(self, session: Session) -> None:
        if session.id not in self.sessions:
            self.asked[request_of(session)] += 1
        self.sessions[session.id] = session
        if session.idempotency_key is not None:
            self._by_key[session.owner, session.idempotency_key] = session.id
        if session.is_pending:
            if session.id not in self.pending:
                self._waited_for.update(link.session_id for link in session.spec.depends_on)
            self.pending[session.id] = PendingRow.of(session)
        elif self.pending.pop(session.id, None) is not None:
            self._waited_for.subtract(link.session_id for link in session.spec.depends_on)
        if session.is_ended:
            self._ended[session.id] = None
            self._evict()

    def _evict(self) -> None:
        while len(self._ended) > self._ended_kept:
            oldest = next((known for known in self._ended if self._is_done_with(known)), None)
            if oldest is None:
                return
            del self._ended[oldest]
            self._forget(self.sessions.pop(oldest))

    def _is_done_with(self, session_id: SessionId) -> bool:
        return not self._waited_for[session_id] and not self.holds_devices(session_id)

    def _forget(self, session: Session) -> None:
        self.ended_complete = False
        request = request_of(session)
        self.asked[request] -= 1
        if not self.asked[request]:
            del self.asked[request]
        if session.idempotency_key is not None:
            del self._by_key[session.owner, session.idempotency_key]
        for kernel_id in self.kernels_of.pop(session.id, {}):
            del self.kernels[kernel_id]
            self.leases.pop(LeaseId(kernel_id), None)

    def _put_kernel(self, kernel: Kernel) -> None:
        self.kernels[kernel.id] = kernel
        self.kernels_of.setdefault(kernel.session_id, {})[kernel.id] = kernel

    def _put_lease(self, lease: Lease) -> None:
        self.leases[lease.id] = lease
        node_id = self.node_of(lease.agent_id)
        on_node = self.open_leases.setdefault(node_id, {})
        if lease.released_us is None:
            on_node[lease.id] = lease
        else:
            on_node.pop(lease.id, None)
        self.count_node(node_id)

    def count_node(self, node_id: NodeId) -> None:
        """Sum what is held on the devices of a node."""
        devices = {device.id: device for agent in self.agents_on(node_id) for device in agent.devices}
        specs = [lease.spec for lease in self.leases_on(node_id)]
        self.used[node_id] = occupancy_of(specs, tuple(devices.values()))

    def agents_on(self, node_id: NodeId) -> list[Agent]:
        """All agents of a node."""
        return [agent for agent in self.agents.values() if agent.node_id == node_id]

    def _put_agent(self, agent: Agent) -> None:
        known = self.agents.get(agent.id)
        moved = {} if known is None or known.node_id == agent.node_id else self._take_leases(known)
        if known is None or known.devices != agent.devices or known.slot_types != agent.slot_types:
            self.layouts[agent.id] = DeviceLayout.of(agent.devices, slot_types=agent.slot_types)
        self.agents[agent.id] = agent
        self.open_leases.setdefault(agent.node_id, {}).update(moved)
        self.count_node(agent.node_id)

    def _take_leases(self, agent: Agent) -> dict[LeaseId, Lease]:
        """The open leases of an agent that goes to another node: what it holds goes with it."""
        on_node = self.open_leases.get(agent.node_id, {})
        moved = {lease.id: lease for lease in on_node.values() if lease.agent_id == agent.id}
        for lease_id in moved:
            del on_node[lease_id]
        self.count_node(agent.node_id)
        return moved

    def _put_slot(self, slot: KnownSlot) -> None:
        self.slots[slot.id] = slot


_WRITERS: Final[dict[type, Callable[..., None]]] = {
    Session: State._put_session,
    Kernel: State._put_kernel,
    Lease: State._put_lease,
    Agent: State._put_agent,
    KnownSlot: State._put_slot,
}


def next_version(record: Record, *, current: Record | None) -> Record:
    """The record with the version that comes after the one known."""
    return replace(record, version=1 if current is None else current.version + 1)
