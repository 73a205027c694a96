"""An independent fold of the event log, and the invariants checked after every commit."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection

from aliquot.core.invariants import violations
from aliquot.service.leadership.clock_keeper import AHEAD_US_MAX
from aliquot.store.queries.queries import events_after
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.events import Event, Record
from aliquot_schema.orchestration import CLOCK_CORRECTED
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import HELD_BY_ARRAY, Session
from aliquot_schema.states import AGENT_MOVES, KERNEL_MOVES, SESSION_MOVES, KernelState, SessionState
from simulation_charges import Charges
from simulation_machine import Machine

R = TypeVar("R", bound=Record)


class ReferenceModel:
    """The reference model: a fold of the log. A broken rule raises AssertionError with a sentence."""

    def __init__(self, machines: dict[str, Machine]) -> None:
        """Without machines, no machine checks."""
        self.end_of_log: Sequence[Any] = ()
        """The row with the end of the log, with its hash."""
        self._was_clock_wrong = False
        self._newest_us = 0
        self.revision = 0
        self.epoch = 0
        self.sessions: dict[str, Session] = {}
        self.kernels: dict[str, Kernel] = {}
        self.leases: dict[str, Lease] = {}
        self.agents: dict[str, Agent] = {}
        self.charges = Charges()
        self.kinds: dict[str, int] = defaultdict(int)
        """Count of events by kind."""
        self._versions: dict[tuple[type, str], int] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._machines = machines

    def follow(self, connection: Connection) -> None:
        """Fold new commits, and check."""
        with connection.begin():
            self.end_of_log = connection.exec_driver_sql("SELECT * FROM counter").all()
            is_new = self.end_of_log[0].number > self.revision
            events = events_after(connection, self.revision, 100_000) if is_new else ()
        for event in events:
            self._apply(event)
        if events:
            self._check()

    def live_sessions(self) -> list[Session]:
        return [session for session in self.sessions.values() if not session.is_ended]

    def held(self) -> list[Lease]:
        return [lease for lease in self.leases.values() if lease.released_us is None]

    def _apply(self, event: Event) -> None:
        # Event much earlier than another: one of two servers started by a wrong clock; a correction is due.
        self._newest_us = max(self._newest_us, event.at_us)
        if event.kind == CLOCK_CORRECTED or event.at_us < self._newest_us - AHEAD_US_MAX:
            self._was_clock_wrong = True
        assert event.number == self.revision + 1, f"event {event.number} follows {self.revision}"
        assert event.epoch >= self.epoch, f"event {event.number} of epoch {event.epoch} follows epoch {self.epoch}"
        self.revision, self.epoch = event.number, event.epoch
        self.kinds[event.kind] += 1
        record = event.record
        key = (type(record), str(record.id))
        before = self._versions.get(key, 0)
        assert event.entity_version == record.version == before + 1, f"{key} goes from {before} to {record.version}"
        self._versions[key] = record.version
        if isinstance(record, Session):
            self._apply_session(record)
        elif isinstance(record, Kernel):
            self._apply_kernel(record)
        elif isinstance(record, Lease):
            is_timely = record.version > 1 or record.epoch == event.epoch
            assert is_timely, f"{record.id} is granted by who led in epoch {record.epoch}, in epoch {event.epoch}"
            self._apply_lease(record)
        elif isinstance(record, Agent):
            self._apply_agent(record)
        self.charges.take(record)

    def _apply_session(self, session: Session) -> None:
        before = self.sessions.get(session.id)
        if before is None:
            assert session.idempotency_key is None or (session.owner, session.idempotency_key) not in self._keys
            self._keys[session.owner, session.idempotency_key or session.id] = session.id
        elif before.state is not session.state:
            # A user retries it; an array continues as soon as one of its tasks does.
            again = (SessionState.QUEUED, SessionState.HELD, *[SessionState.RUNNING][: before.tasks is not None])
            is_retried = before.is_ended and session.state in again
            # A task whose turn has come is released and placed by one event.
            is_turn = before.held_by == HELD_BY_ARRAY and session.state is SessionState.SCHEDULED
            allowed = session.state in SESSION_MOVES[before.state] or is_retried or is_turn
            assert allowed, f"{session.id} goes from {before.state} to {session.state}"
            assert session.attempt >= before.attempt, f"{session.id} goes back to attempt {session.attempt}"
        self.sessions[session.id] = session
        self.charges.project_of[session.id] = session.project

    def _apply_kernel(self, kernel: Kernel) -> None:
        before = self.kernels.get(kernel.id)
        if before is not None and before.state is not kernel.state:
            assert kernel.state in KERNEL_MOVES[before.state], f"{kernel.id}: {before.state} to {kernel.state}"
        self.kernels[kernel.id] = kernel

    def _apply_lease(self, lease: Lease) -> None:
        before = self.leases.get(lease.id)
        assert before is None or before.released_us is None, f"lease {lease.id} changes after its release"
        if lease.released_us is not None and lease.kernel_id is not None:
            machine = self._machines.get(lease.agent_id)
            runs = machine is not None and lease.kernel_id in machine.running
            assert not runs, f"lease {lease.id} is released by {lease.evidence}, and its process runs"
        self.leases[lease.id] = lease

    def _apply_agent(self, agent: Agent) -> None:
        before = self.agents.get(agent.id)
        if before is not None and before.state is not agent.state:
            assert agent.state in AGENT_MOVES[before.state], f"{agent.id}: {before.state} to {agent.state}"
        self.agents[agent.id] = agent

    def _check(self) -> None:
        live = {s.id: s for s in self.sessions.values() if not s.is_ended}
        kernels = [k for k in self.kernels.values() if k.session_id in live or k.state is not KernelState.EXITED]
        needed = {kernel.id for kernel in kernels}
        leases = [lease for lease in self.leases.values() if lease.released_us is None or lease.kernel_id in needed]
        sessions = live | {kernel.session_id: self.sessions[kernel.session_id] for kernel in kernels}
        complete = [kernel for kernel in self.kernels.values() if kernel.session_id in sessions]
        wrong = violations(self.agents.values(), sessions=sessions.values(), kernels=complete, leases=leases)
        if self._was_clock_wrong:
            # Until the correction, and in a change being committed then, times of the wrong clock remain.
            wrong = [words for words in wrong if not words.endswith("out of order")]
        assert not wrong, "; ".join(wrong)
