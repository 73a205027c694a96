"""State: the cluster in memory, folded from all committed events, with the indexes that passes and queries need."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from aliquot.core.clock_correction import ClockCorrection
from aliquot.core.fairshare import Usage
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import HoldersOn, PendingRow, Request
from aliquot.core.workloads import Forecasts
from aliquot.service.state.agents import AgentRegistry, DiskSpace, FeasibleRequests, ForeignUsage
from aliquot.service.state.alerts import KINDS, AlertIndex, Notice
from aliquot.service.state.booking_index import BookingIndex
from aliquot.service.state.forecast_board import ForecastBoard
from aliquot.service.state.host_uses import HostUsage
from aliquot.service.state.identities import Identities
from aliquot.service.state.idle_cases import IdleCases
from aliquot.service.state.indexes import (
    BacklogPeaks,
    ExternalAllocationIndex,
    LastVerdicts,
    LiveKernels,
    PendingCounts,
    RequestCounts,
    Retention,
    RunningSessions,
    leader_of,
)
from aliquot.service.state.rows import QueueRows, RunningRows, pending_row
from aliquot.service.state.transfers import Transfer
from aliquot.service.state.usage_accounts import Charging, Holdings, UsageAccounts
from aliquot_schema.billing import Statement
from aliquot_schema.bookings import Booking
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.cluster.findings import Finding
from aliquot_schema.events import RECORD_KINDS, Event, Record, for_every_kind
from aliquot_schema.identity.accounts import ApiKey, User
from aliquot_schema.identity.secrets import SecretNames
from aliquot_schema.ids import AgentId, DeviceId, KernelId, LeaseId, NodeId, QuotaId, SessionId, SlotName, UserId
from aliquot_schema.orchestration import CLOCK_ACTION, CLOCK_CORRECTED, Action, Orchestration
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Account, Quota
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState

R = TypeVar("R", bound=Record)

_ORDER: Final = {kind.record: index for index, kind in enumerate(RECORD_KINDS)}


def load_order(record: Record) -> tuple[int, int, str]:
    """Sort key for loading: agents before their leases, ended sessions by end time."""
    return _ORDER[type(record)], (isinstance(record, Session) and record.ended_us) or 0, record.id


ENDED_KEPT: Final = 10_000
"""Ended sessions kept in memory; older ones are read from the store."""


class State:
    """The state at event number `revision`. Only `apply` changes it, except for what is not durable: readings and the
    like of agents, disk space, the backlogs, and the verdicts of the last pass."""

    def __init__(self, *, ended_kept: int = ENDED_KEPT, forecasts: Forecasts | None = None) -> None:
        self.revision = 0
        self.newest_us = 0
        """The latest time of an event since the last correction of the clock."""
        self.sessions: dict[SessionId, Session] = {}
        self.kernels: dict[KernelId, Kernel] = {}
        self.live_kernels = LiveKernels()
        self.leases: dict[LeaseId, Lease] = {}
        self.registry = AgentRegistry()
        self.agents, self.layouts = self.registry.agents, self.registry.layouts
        self.feasible_requests = FeasibleRequests(self.registry)
        self.reachable = self.registry.reachable
        self.faults = self.registry.faults
        self.readings = self.registry.readings
        self.slots: dict[SlotName, KnownSlot] = {}
        self.policy = PolicyDocument()
        """Version 0 until it is changed for the first time."""
        self.rules = Policy.of(self.policy)
        """The policy in the form that passes use."""
        self.orchestration = Orchestration()
        self.quotas: dict[QuotaId, Quota] = {}
        self.accounts: dict[str, Account] = {}
        self.statements: dict[str, Statement] = {}
        self.people = Identities()
        self.secret_names: dict[UserId, SecretNames] = {}
        self.actions, self.idle_cases = dict[str, Action](), IdleCases()
        self.alert_index = AlertIndex()
        self.findings: dict[str, Finding] = {}  # open ones
        self.bookings = BookingIndex()
        self.backlogs = BacklogPeaks()
        self.foreign_usage, self.disk_space = ForeignUsage(), DiskSpace()
        self.host_uses, self.transfers = HostUsage(self.kernels), dict[KernelId, Transfer]()
        self.external_allocations = ExternalAllocationIndex()
        self.pending: dict[SessionId, PendingRow] = {}
        self.kernels_of: dict[SessionId, dict[KernelId, Kernel]] = {}
        self.pending_counts = PendingCounts()
        self.ended_complete = True
        self.leaving: dict[SessionId, None] = {}  # being preempted, still running
        self.queue_rows = QueueRows(self.pending)
        self.forecasts = forecasts or Forecasts()
        self._holdings = Holdings()
        self._charging = Charging(sessions=self.sessions, registry=self.registry, holdings=self._holdings)
        self._running = RunningSessions(
            sessions=self.sessions,
            kernels_of=self.kernels_of,
            leases=self.leases,
            external_allocations=self.external_allocations,
            registry=self.registry,
            forecasts=self.forecasts,
        )
        self.running_rows = RunningRows(lambda session_id: self._running.row(session_id, policy=self.rules))
        self._request_counts = RequestCounts()
        self._last_verdicts = LastVerdicts()
        self.board = ForecastBoard()
        self._by_key: dict[tuple[UserId, str], SessionId] = {}
        self._retention = Retention(ended_kept)
        self.kept = self._retention.kept  # pinned in memory by changes in progress, with the number of pins

    def load(self, records: Iterable[Record], *, revision: int, ended_complete: bool, newest_us: int = 0) -> None:
        """Load the records of the store, as of event number `revision`."""
        records = tuple(records)
        self._put_all(records)
        ended = [record for record in records if isinstance(record, Session) and record.is_ended]
        for session in sorted(ended, key=lambda one: (one.ended_us or 0, one.id)):
            self.forecasts.learn(session)
        for session in self.sessions.values():
            self._expect(session)
        self._charging.open(self.accounts.values(), policy=self.rules)
        self.revision, self.newest_us = revision, newest_us
        self.ended_complete = ended_complete and self.ended_complete

    def recall(self, records: Iterable[Record]) -> None:
        """Load an evicted session with its kernels and leases; no effect if it is in memory."""
        records = tuple(records)
        if not any(isinstance(record, Session) and record.id in self.sessions for record in records):
            self._put_all(records)

    def apply(self, event: Event) -> None:
        """Apply the next event."""
        assert event.number == self.revision + 1, f"event {event.number} after {self.revision}"
        record = event.record
        if isinstance(record, Session):
            self._learn(record)
            self.books.usage = self.books.usage.credited(self.sessions.get(record.id), record)
        self._put(record)
        if isinstance(record, Session):
            self._expect(record)
        if isinstance(record, Booking):
            self._charging.charge_booking(record)
        if isinstance(record, Lease):
            self._charging.charge(record, policy=self.rules)
        self.newest_us = max(self.newest_us, event.at_us)
        if event.kind == CLOCK_CORRECTED and (correction := self.clock_correction) is not None:
            self.books.usage = self.books.usage.corrected(correction)
            self.newest_us = correction.to_us
        self.revision = event.number

    def forget(self, names: Iterable[SessionId]) -> list[SessionId]:
        """Evict ended sessions that the store is about to delete. Returns those not needed, in memory or not."""
        unneeded = [name for name in names if name not in self.kept and not self._is_needed(name)]
        for name in unneeded:
            if name in self.sessions:
                self._retention.drop(name)
                self._forget(self.sessions.pop(name))
        return unneeded

    def judge(self, verdicts: Mapping[SessionId, Verdict], *, promised_us: Mapping[SessionId, int]) -> None:
        """Store the verdicts of a pass, see `LastVerdicts`."""
        self._last_verdicts.store(verdicts, promised_us=promised_us)

    @property
    def verdicts(self) -> Mapping[SessionId, Verdict]:
        """Verdicts of the last pass, in queue order."""
        return self._last_verdicts.verdicts

    @property
    def promised_us(self) -> Mapping[SessionId, int]:
        """Latest start times that the last pass promised by reservations."""
        return self._last_verdicts.promised_us

    def queue(self) -> Iterator[SessionId]:
        """Pending sessions in the order of the last pass, then those without a position, then those submitted since."""
        pending, verdicts = self.pending, self.verdicts
        yield from (name for name in self._last_verdicts.line() if name in pending)
        yield from (name for name in pending if name not in verdicts)

    def position(self, session_id: SessionId) -> int | None:
        """Position in the queue of the last pass, from 1; None when the session does not wait for its turn."""
        return self._last_verdicts.position(session_id) if session_id in self.pending else None

    def by_key(self, owner: UserId, key: str) -> Session | None:
        """The session that was created with this idempotency key."""
        found = self._by_key.get((owner, key))
        return self.sessions[found] if found is not None else None

    def slots_in_use(self) -> tuple[str, ...]:
        """Names of the slots that agents ever reported, without retired ones, in alphabetical order."""
        return tuple(sorted(slot.id for slot in self.slots.values() if not slot.retired))

    @property
    def books(self) -> UsageAccounts:
        """Usage of all users, and the charges of open leases."""
        return self._charging.books

    @books.setter
    def books(self, books: UsageAccounts) -> None:
        self._charging.books = books

    @property
    def usage(self) -> Usage:
        """Usage of users and projects."""
        return self.books.usage

    @property
    def clock_correction(self) -> ClockCorrection | None:
        """The last correction of the clock; None before the first one."""
        action = self.actions.get(CLOCK_ACTION)
        return None if action is None else ClockCorrection.of(action)

    @property
    def tasks_pending(self) -> int:
        """Number of waiting tasks; a job array counts with its waiting tasks."""
        return self.pending_counts.waiting

    def waited_for(self) -> Iterable[SessionId]:
        """Sessions that waiting ones depend on."""
        return self._request_counts.waited_for()

    @property
    def asked(self) -> Counter[Request]:
        """Sessions in memory per request."""
        return self._request_counts.asked

    @property
    def open_leases(self) -> Mapping[NodeId, Mapping[LeaseId, Lease]]:
        """Open leases, by node."""
        return self._holdings.open_leases

    @property
    def used(self) -> Mapping[NodeId, Mapping[DeviceId, int]]:
        """Budget units held on each physical device; a node's mapping is replaced, never changed."""
        return self._holdings.used

    @property
    def holders(self) -> Mapping[NodeId, HoldersOn]:
        """Sessions that hold a part of each device; a node's mapping is replaced, never changed."""
        return self._holdings.holders

    def node_of(self, agent_id: AgentId) -> NodeId:
        """The node an agent is on."""
        return self.agents[agent_id].node_id

    def kernels_in(self, session: Session) -> list[Kernel]:
        """The kernels of a session's newest attempt, by rank."""
        found = self.kernels_of.get(session.id)
        newest = (kernel for kernel in found.values() if kernel.attempt == session.attempt) if found else ()
        return sorted(newest, key=lambda kernel: kernel.rank)

    def holds_devices(self, session_id: SessionId) -> bool:
        """Whether any kernel of any attempt still holds its devices."""
        kernels = self.kernels_of.get(session_id, {}).values()
        return any(kernel.state is not KernelState.EXITED for kernel in kernels) or bool(
            self.external_allocations.of(session_id)
        )

    def is_held(self, agent_id: AgentId) -> bool:
        """Whether any lease on an agent is open."""
        agent = self.agents.get(agent_id)
        return agent is not None and any(lease.agent_id == agent_id for lease in self.leases_on(agent.node_id))

    def agents_on(self, node_id: NodeId) -> list[Agent]:
        """All agents of a node."""
        return self.registry.on(node_id)

    def leases_on(self, node_id: NodeId) -> Iterable[Lease]:
        """Leases on a node that are not released."""
        return self._holdings.leases_on(node_id)

    def find(self, kind: type[R], id_: str) -> R | None:
        """The record of a kind, as far as it is in memory; None for a document that was never written."""
        found = _IN_MEMORY[kind].find(self, id_)
        return found if isinstance(found, kind) else None

    def _put_all(self, records: Iterable[Record]) -> None:
        for record in sorted(records, key=load_order):
            self._put(record)

    def _put(self, record: Record) -> None:
        _IN_MEMORY[type(record)].put(self, record)

    def _put_session(self, session: Session) -> None:
        before = self.sessions.get(session.id)
        self._request_counts.count(session, before=before)
        self.pending_counts.put(session, before=before)
        self.sessions[session.id] = session
        if session.idempotency_key is not None:
            self._by_key[session.owner, session.idempotency_key] = session.id
        if session.is_pending:
            if session.id not in self.pending:
                self._request_counts.add_dependencies(session)
            self.pending[session.id] = pending_row(session, workload=self.forecasts.wait(session))
            self.queue_rows.note(session.id)
            self._last_verdicts.follow(session)
        elif self.pending.pop(session.id, None) is not None:
            self._request_counts.remove_dependencies(session)
            self.forecasts.leave(session)
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
        """Learn from the end of a session, once."""
        known = self.sessions.get(session.id)
        if session.is_ended and (known is None or not known.is_ended):
            self.forecasts.learn(session)

    def _expect(self, session: Session) -> None:
        """Fix the prediction of a session that neither waits nor has ended."""
        if not session.is_pending and not session.is_ended:
            self.forecasts.start(session)

    def _evict(self) -> None:
        for session_id in self._retention.surplus(self._is_needed):
            self._forget(self.sessions.pop(session_id))

    def _is_needed(self, session_id: SessionId) -> bool:
        known = self.sessions.get(session_id)
        lives = known is not None and (not known.is_ended or (known.tasks is not None and len(known.tasks.active) > 0))
        return lives or self._request_counts.is_waited_for(session_id) or self.holds_devices(session_id)

    def _forget(self, session: Session) -> None:
        self.ended_complete = False
        self._request_counts.forget(session)
        if session.idempotency_key is not None:
            del self._by_key[session.owner, session.idempotency_key]
        for kernel_id in self.kernels_of.pop(session.id, {}):
            del self.kernels[kernel_id]
            self.leases.pop(LeaseId(kernel_id), None)

    def _put_kernel(self, kernel: Kernel) -> None:
        self.kernels[kernel.id] = kernel
        self.kernels_of.setdefault(kernel.session_id, {})[kernel.id] = kernel
        self.live_kernels.put(kernel, leader=self.kernels.get(leader_of(kernel)))
        self.running_rows.note(kernel.session_id)

    def _put_lease(self, lease: Lease) -> None:
        self.leases[lease.id] = lease
        if self.external_allocations.put(lease):
            del self.leases[lease.id]
        self._holdings.put(lease, self.node_of(lease.agent_id))
        if lease.session_id is not None:
            self.running_rows.note(lease.session_id)

    def _put_agent(self, agent: Agent) -> None:
        known = self.agents.get(agent.id)
        if not self.registry.put(agent):
            return
        if known is not None and known.node_id != agent.node_id:
            self._holdings.set_devices(known.node_id, self.registry.devices_on(known.node_id))
            self._holdings.move(agent.id, of=known.node_id, to=agent.node_id)
        self._holdings.set_devices(agent.node_id, self.registry.devices_on(agent.node_id))
        self.running_rows.note_all()

    def _put_policy(self, policy: PolicyDocument) -> None:
        self.policy = policy
        self.rules = Policy.of(policy)
        self.books.usage = structs.replace(self.books.usage, half_life_ms=policy.half_life_ms)
        self.running_rows.note_all()

    def _put_quota(self, quota: Quota) -> None:
        self.quotas = {**self.quotas, quota.id: quota}

    def _put_orchestration(self, orchestration: Orchestration) -> None:
        self.orchestration = orchestration

    def _put_action(self, action: Action) -> None:
        self.actions[action.id] = action
        self.idle_cases.put(action)

    def _put_finding(self, finding: Finding) -> None:
        self.findings.pop(finding.id, None)
        if finding.closed_us is None:
            self.findings[finding.id] = finding


class _InMemory(Struct, frozen=True):
    """How the state keeps one kind of record."""

    put: Callable[[State, Any], None]
    find: Callable[[State, Any], Record | None]


def _by_id(name: str) -> _InMemory:
    """In the mapping `name` of the state."""
    return _InMemory(
        lambda state, record: getattr(state, name).update({record.id: record}),
        lambda state, id_: getattr(state, name).get(id_),
    )


def _notices(kind: type[Notice]) -> _InMemory:
    return _InMemory(
        lambda state, record: state.alert_index.put(record), lambda state, id_: state.alert_index.find(kind, id_)
    )


_IN_MEMORY: Final = for_every_kind(
    {
        Session: _InMemory(State._put_session, lambda state, id_: state.sessions.get(id_)),
        Kernel: _InMemory(State._put_kernel, lambda state, id_: state.kernels.get(id_)),
        Lease: _InMemory(State._put_lease, lambda state, id_: state.leases.get(id_)),
        Agent: _InMemory(State._put_agent, lambda state, id_: state.agents.get(id_)),
        KnownSlot: _by_id("slots"),
        PolicyDocument: _InMemory(State._put_policy, lambda state, _: state.policy if state.policy.version else None),
        Orchestration: _InMemory(
            State._put_orchestration, lambda state, _: state.orchestration if state.orchestration.version else None
        ),
        Quota: _InMemory(State._put_quota, lambda state, id_: state.quotas.get(id_)),
        Account: _by_id("accounts"),
        Statement: _by_id("statements"),
        Booking: _InMemory(
            lambda state, booking: state.bookings.put(booking), lambda state, id_: state.bookings.find(id_)
        ),
        Finding: _InMemory(State._put_finding, lambda state, id_: state.findings.get(id_)),
        User: _InMemory(
            lambda state, user: state.people.put_user(user), lambda state, id_: state.people.users.get(id_)
        ),
        ApiKey: _InMemory(lambda state, key: state.people.put_key(key), lambda state, id_: state.people.keys.get(id_)),
        SecretNames: _by_id("secret_names"),
        Action: _InMemory(State._put_action, lambda state, id_: state.actions.get(id_)),
        **{kind: _notices(kind) for kind in KINDS},
    },
    part="a place in memory, in _IN_MEMORY of aliquot.service.state.state",
)
