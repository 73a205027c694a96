"""The state in memory: the fold of everything committed so far, with the indexes that decisions and questions need."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from aliquot.core.fairshare import Usage
from aliquot.core.policy import Policy
from aliquot.core.predict import Prediction
from aliquot.core.snapshot import AgentRow, HoldersOn, PendingRow, Request
from aliquot.service.accounting import Books
from aliquot.service.charging import Charging
from aliquot.service.demand import Demand
from aliquot.service.disk_space import DiskSpace
from aliquot.service.external import External
from aliquot.service.fleet import Fleet
from aliquot.service.forecasting import Forecasts
from aliquot.service.holdings import Holdings
from aliquot.service.judgement import Judgement
from aliquot.service.meeting_ports import MeetingPorts, leader_of
from aliquot.service.noticed import KINDS, Noticed
from aliquot.service.outside_index import OutsideIndex
from aliquot.service.people import People
from aliquot.service.population import Population
from aliquot.service.possible import Possible
from aliquot.service.record_order import end_of, load_order
from aliquot.service.retention import Retention
from aliquot.service.rows import QueueRows, RunningRows, pending_row
from aliquot.service.running_reading import RunningReading
from aliquot_schema.accounts import ApiKey, User
from aliquot_schema.actions import Action
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.events import Event, Record
from aliquot_schema.findings import Finding
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId, NodeId, QuotaId, SessionId, SlotName, UserId
from aliquot_schema.leases import Kernel, Lease
from aliquot_schema.orchestration import Orchestration
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.reasons import Verdict
from aliquot_schema.secrets import SecretNames
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

ENDED_KEPT: Final = 10_000
"""Sessions that ended are kept in memory up to this many; older ones are read from the store."""


class State:
    """What is true at event number `revision`. Changed by `apply` alone, but for what is not durable:
    readings, which agents can be asked, and the verdicts of the last pass."""

    def __init__(self, *, ended_kept: int = ENDED_KEPT, forecasts: Forecasts | None = None) -> None:
        self.revision = 0
        self.sessions: dict[SessionId, Session] = {}
        self.kernels: dict[KernelId, Kernel] = {}
        self.meeting_ports = MeetingPorts()
        self.leases: dict[LeaseId, Lease] = {}
        self._fleet = Fleet()
        self.agents = self._fleet.agents
        self.layouts = self._fleet.layouts
        self.possible = Possible(self._fleet)
        self.reachable = self._fleet.reachable
        self.readings = self._fleet.readings
        self.slots: dict[SlotName, KnownSlot] = {}
        self.policy = PolicyDocument()
        """Version 0 as long as nobody has changed it."""
        self.rules = Policy.of(self.policy)
        """The policy, as a pass reads it."""
        self.orchestration = Orchestration()
        self.quotas: dict[QuotaId, Quota] = {}
        self.accounts: dict[str, Account] = {}
        self.people = People()
        self.secret_names: dict[UserId, SecretNames] = {}
        self.actions: dict[str, Action] = {}
        self.noticed = Noticed()
        self.findings: dict[str, Finding] = {}
        """Those that stand."""
        self.external = External()
        self.space = DiskSpace()
        self.outside = OutsideIndex()
        self.pending: dict[SessionId, PendingRow] = {}
        self.kernels_of: dict[SessionId, dict[KernelId, Kernel]] = {}
        self.population = Population()
        self.ended_complete = True
        self.leaving: dict[SessionId, None] = {}
        """Sessions that were asked to make room, and still run."""
        self.queue_rows = QueueRows(self.pending)
        self._forecasts = forecasts or Forecasts()
        self._holdings = Holdings()
        self._charging = Charging(sessions=self.sessions, fleet=self._fleet, holdings=self._holdings)
        self._running = RunningReading(
            sessions=self.sessions,
            kernels_of=self.kernels_of,
            leases=self.leases,
            outside=self.outside,
            fleet=self._fleet,
            forecasts=self._forecasts,
        )
        self.running_rows = RunningRows(lambda session_id: self._running.row(session_id, policy=self.rules))
        self._demand = Demand()
        self._judgement = Judgement()
        self._by_key: dict[tuple[UserId, str], SessionId] = {}
        self._retention = Retention(ended_kept)
        self.kept = self._retention.kept
        """Sessions that somebody is about to change, and how many do: they stay in memory."""

    def load(self, records: Iterable[Record], *, revision: int, ended_complete: bool) -> None:
        """Begin from what the store holds."""
        records = tuple(records)
        self._take_in(records)
        ended = [record for record in records if isinstance(record, Session) and record.is_ended]
        for session in sorted(ended, key=end_of):
            self._forecasts.learn(session)
        for session in self.sessions.values():
            if not session.is_ended:
                self._expect(session)
        self._charging.open(self.accounts.values(), policy=self.rules)
        self.revision = revision
        self.ended_complete = ended_complete and self.ended_complete

    def recall(self, records: Iterable[Record]) -> None:
        """Take an ended session back into memory, with what belongs to it; nothing happens to one that is there."""
        records = tuple(records)
        if not any(isinstance(record, Session) and record.id in self.sessions for record in records):
            self._take_in(records)

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        assert event.number == self.revision + 1, f"event {event.number} after {self.revision}"
        record = event.record
        if isinstance(record, Session):
            self._learn(record)
        self._put(record)
        if isinstance(record, Session) and not record.is_ended:
            self._expect(record)
        if isinstance(record, Lease):
            self._charging.charge(record, policy=self.rules)
        self.revision = event.number

    def forget(self, names: Iterable[SessionId]) -> list[SessionId]:
        """Let go of sessions that ended and that the store is about to lose; returns those that nobody needs, whether
        they were in memory or not. The others stay."""
        unneeded = [name for name in names if name not in self.kept and not self._is_needed(name)]
        for name in unneeded:
            if name in self.sessions:
                self._retention.drop(name)
                self._forget(self.sessions.pop(name))
        return unneeded

    def judge(self, verdicts: Mapping[SessionId, Verdict], *, promised_us: Mapping[SessionId, int]) -> None:
        """Remember what a pass said of those that wait, see `Judgement`."""
        self._judgement.judge(verdicts, promised_us=promised_us)

    @property
    def verdicts(self) -> Mapping[SessionId, Verdict]:
        """Of the last pass, in queue order."""
        return self._judgement.verdicts

    @property
    def promised_us(self) -> Mapping[SessionId, int]:
        """When those start at the latest that the last pass promised a time."""
        return self._judgement.promised_us

    def queue(self) -> list[SessionId]:
        """Pending sessions in the order in which the allocator looks; those no pass has seen yet stand last."""
        seen = [session_id for session_id in self.verdicts if session_id in self.pending]
        fresh = [session_id for session_id in self.pending if session_id not in self.verdicts]
        return seen + fresh

    def position(self, session_id: SessionId) -> int | None:
        """The place in the queue that the last pass gave a session, from 1; None when it does not wait."""
        return self._judgement.position(session_id) if session_id in self.pending else None

    def by_key(self, owner: UserId, key: str) -> Session | None:
        """The session that was created with this idempotency key."""
        found = self._by_key.get((owner, key))
        return self.sessions[found] if found is not None else None

    @property
    def books(self) -> Books:
        """What everybody has used, and what is charged for what is held."""
        return self._charging.books

    @books.setter
    def books(self, books: Books) -> None:
        self._charging.books = books

    @property
    def usage(self) -> Usage:
        """What users and projects have used."""
        return self.books.usage

    def forecast_of(self, session_id: SessionId) -> Prediction | None:
        """How long a session was expected to run when its row was made, with the reason in a sentence."""
        return self._forecasts.of(session_id)

    def forecast_like(self, session: Session) -> Prediction | None:
        """How long a session that is not here would be expected to run."""
        return self._forecasts.like(session)

    @property
    def tasks_pending(self) -> int:
        """How many tasks wait; a job array counts those of it that do."""
        return self.population.waiting

    def waited_for(self) -> Iterable[SessionId]:
        """Sessions that pending ones depend on."""
        return self._demand.waited_for()

    def agent_row(self, agent: Agent, *, is_open: bool) -> AgentRow:
        """An agent, as far as placing is concerned; the same row as before when nothing has changed."""
        return self._fleet.row(agent, is_open=is_open)

    @property
    def asked(self) -> Counter[Request]:
        """How often each request was made, by the sessions in memory."""
        return self._demand.asked

    @property
    def open_leases(self) -> Mapping[NodeId, Mapping[LeaseId, Lease]]:
        """What is not released, by node."""
        return self._holdings.open_leases

    @property
    def used(self) -> Mapping[NodeId, Mapping[DeviceId, int]]:
        """Budget units held on each physical device; a node's mapping is replaced, never changed."""
        return self._holdings.used

    @property
    def holders(self) -> Mapping[NodeId, HoldersOn]:
        """The sessions that hold a part of each device; a node's mapping is replaced, never changed."""
        return self._holdings.holders

    def node_of(self, agent_id: AgentId) -> NodeId:
        """The node an agent is on."""
        return self.agents[agent_id].node_id

    def kernels_in(self, session: Session) -> list[Kernel]:
        """The kernels of a session's newest attempt, by rank."""
        found = self.kernels_of.get(session.id, {}).values()
        return sorted((kernel for kernel in found if kernel.attempt == session.attempt), key=lambda kernel: kernel.rank)

    def holds_devices(self, session_id: SessionId) -> bool:
        """Whether any kernel of any attempt still holds its devices."""
        kernels = self.kernels_of.get(session_id, {}).values()
        return any(kernel.state is not KernelState.EXITED for kernel in kernels) or bool(self.outside.of(session_id))

    def is_held(self, agent_id: AgentId) -> bool:
        """Whether anybody holds something of an agent."""
        agent = self.agents.get(agent_id)
        return agent is not None and any(lease.agent_id == agent_id for lease in self.leases_on(agent.node_id))

    def agents_on(self, node_id: NodeId) -> list[Agent]:
        """All agents of a node."""
        return self._fleet.on(node_id)

    def leases_on(self, node_id: NodeId) -> Iterable[Lease]:
        """Leases on a node that are not released."""
        return self._holdings.leases_on(node_id)

    def _take_in(self, records: Iterable[Record]) -> None:
        for record in sorted(records, key=load_order):
            self._put(record)

    def _put(self, record: Record) -> None:
        writer: Callable[..., None] = _WRITERS[type(record)]
        writer(self, record)

    def _put_session(self, session: Session) -> None:
        before = self.sessions.get(session.id)
        self._demand.ask(session, before=before)
        self.population.put(session, before=before)
        self.sessions[session.id] = session
        if session.idempotency_key is not None:
            self._by_key[session.owner, session.idempotency_key] = session.id
        if session.is_pending:
            if session.id not in self.pending:
                self._demand.wait(session)
            self.pending[session.id] = pending_row(session)
            self.queue_rows.note(session.id)
        elif self.pending.pop(session.id, None) is not None:
            self._demand.wait_no_more(session)
            self.queue_rows.note(session.id)
        if session.id in self.kernels_of:
            self.running_rows.note(session.id)
        if session.state is SessionState.PREEMPTING:
            self.leaving[session.id] = None
        else:
            self.leaving.pop(session.id, None)
        self._retention.note(session)
        if session.is_ended:
            self._evict()

    def _learn(self, session: Session) -> None:
        """From an end, once. What is asked for may change while a session waits, and so what is expected of it."""
        known = self.sessions.get(session.id)
        if session.is_ended and (known is None or not known.is_ended):
            self._forecasts.learn(session)

    def _expect(self, session: Session) -> None:
        """Predict what waits, and what starts without having waited: the task of an array."""
        if not session.is_pending and self._forecasts.of(session.id) is not None:
            return
        prediction = self._forecasts.foresee(session)
        if session.is_pending and prediction is not None and session.spec.estimated_duration_ms is None:
            self.pending[session.id] = pending_row(session, estimate_ms=prediction.estimate_ms)

    def _evict(self) -> None:
        for session_id in self._retention.surplus(self._is_needed):
            self._forget(self.sessions.pop(session_id))

    def _is_needed(self, session_id: SessionId) -> bool:
        known = self.sessions.get(session_id)
        lives = known is not None and (not known.is_ended or (known.tasks is not None and len(known.tasks.active) > 0))
        return lives or self._demand.is_waited_for(session_id) or self.holds_devices(session_id)

    def _forget(self, session: Session) -> None:
        self.ended_complete = False
        self._demand.forget(session)
        if session.idempotency_key is not None:
            del self._by_key[session.owner, session.idempotency_key]
        for kernel_id in self.kernels_of.pop(session.id, {}):
            del self.kernels[kernel_id]
            self.leases.pop(LeaseId(kernel_id), None)

    def _put_kernel(self, kernel: Kernel) -> None:
        self.kernels[kernel.id] = kernel
        self.kernels_of.setdefault(kernel.session_id, {})[kernel.id] = kernel
        self.meeting_ports.put(kernel, leader=self.kernels.get(leader_of(kernel)))
        self.running_rows.note(kernel.session_id)

    def _put_lease(self, lease: Lease) -> None:
        self.leases[lease.id] = lease
        if self.outside.put(lease):
            del self.leases[lease.id]
        self._holdings.put(lease, self.node_of(lease.agent_id))
        if lease.session_id is not None:
            self.running_rows.note(lease.session_id)

    def _put_agent(self, agent: Agent) -> None:
        known = self.agents.get(agent.id)
        if not self._fleet.put(agent):
            return
        if known is not None and known.node_id != agent.node_id:
            self._holdings.set_devices(known.node_id, self._fleet.devices_on(known.node_id))
            self._holdings.move(agent.id, of=known.node_id, to=agent.node_id)
        self._holdings.set_devices(agent.node_id, self._fleet.devices_on(agent.node_id))
        self.running_rows.note_all()

    def _put_slot(self, slot: KnownSlot) -> None:
        self.slots[slot.id] = slot

    def _put_policy(self, policy: PolicyDocument) -> None:
        self.policy = policy
        self.rules = Policy.of(policy)
        self.books.usage = replace(self.books.usage, half_life_ms=policy.half_life_ms)
        self.running_rows.note_all()

    def _put_quota(self, quota: Quota) -> None:
        self.quotas = {**self.quotas, quota.id: quota}

    def _put_account(self, account: Account) -> None:
        self.accounts[account.id] = account

    def _put_finding(self, finding: Finding) -> None:
        self.findings.pop(finding.id, None)
        if finding.closed_us is None:
            self.findings[finding.id] = finding


_WRITERS: Final[dict[type, Callable[..., None]]] = {
    Session: State._put_session,
    Kernel: State._put_kernel,
    Lease: State._put_lease,
    Agent: State._put_agent,
    KnownSlot: State._put_slot,
    PolicyDocument: State._put_policy,
    Orchestration: lambda state, orchestration: setattr(state, "orchestration", orchestration),
    Quota: State._put_quota,
    Account: State._put_account,
    Finding: State._put_finding,
    User: lambda state, user: state.people.put_user(user),
    ApiKey: lambda state, key: state.people.put_key(key),
    SecretNames: lambda state, names: state.secret_names.update({names.id: names}),
    Action: lambda state, action: state.actions.update({action.id: action}),
    **dict.fromkeys(KINDS, lambda state, record: state.noticed.put(record)),
}
