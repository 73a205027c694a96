"""A draft: changes that are thought out on the present state, and committed together or not at all."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from aliquot.core import transitions
from aliquot.core.arrays import place_of, settled, with_task
from aliquot.service.noticed import KINDS, Notice
from aliquot.service.ports import Write
from aliquot.service.state import State
from aliquot_schema.accounts import ApiKey, User
from aliquot_schema.actions import Action
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.events import Record
from aliquot_schema.findings import Finding
from aliquot_schema.ids import (
    AgentId,
    KernelId,
    KeyId,
    LeaseId,
    NodeId,
    ProjectId,
    QuotaId,
    SessionId,
    SlotName,
    UserId,
)
from aliquot_schema.leases import EndEvidence, Kernel, Lease
from aliquot_schema.notices import Alert, Delivery, NoticeMark, NoticeRule, Subscriber
from aliquot_schema.orchestration import ORCHESTRATION_ID, Orchestration
from aliquot_schema.policies import POLICY_ID, PolicyDocument
from aliquot_schema.quotas import Account, Quota, account_id
from aliquot_schema.secrets import SecretNames
from aliquot_schema.sessions import DEFAULT_PROJECT, Session

R = TypeVar(
    "R",
    Session,
    Kernel,
    Lease,
    Agent,
    KnownSlot,
    PolicyDocument,
    Quota,
    Account,
    Finding,
    Orchestration,
    User,
    ApiKey,
    NoticeRule,
    Alert,
    Delivery,
    Subscriber,
    NoticeMark,
    SecretNames,
    Action,
)

N = TypeVar("N", bound=Notice)

_ENTITY: Final[dict[type, str]] = {
    Session: "session",
    Kernel: "kernel",
    Lease: "lease",
    Agent: "agent",
    KnownSlot: "slot",
    PolicyDocument: "policy",
    Quota: "quota",
    Account: "account",
    Finding: "finding",
    User: "user",
    ApiKey: "key",
    Orchestration: "orchestration",
    NoticeRule: "notice_rule",
    Alert: "alert",
    Delivery: "delivery",
    Subscriber: "subscriber",
    NoticeMark: "notice_mark",
    SecretNames: "secrets",
    Action: "action",
}


class Draft:
    """Reads see the state with the draft's own writes on top of it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: dict[tuple[type, str], Record] = {}
        self._kernels_of: dict[SessionId, dict[KernelId, Kernel]] = {}
        """Of the draft's own."""
        self._usage = state.usage
        self.writes: list[Write] = []

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

    def policy(self) -> PolicyDocument:
        """The policy as this draft has it; version 0 when none was ever stored."""
        own = self._own.get((PolicyDocument, POLICY_ID))
        return own if isinstance(own, PolicyDocument) else self._state.policy

    def orchestration(self) -> Orchestration:
        """Whether anything new is placed, as this draft has it."""
        own = self._own.get((Orchestration, ORCHESTRATION_ID))
        return own if isinstance(own, Orchestration) else self._state.orchestration

    def quota(self, quota_id: QuotaId) -> Quota | None:
        """A quota as this draft has it."""
        own = self._own.get((Quota, quota_id))
        return own if isinstance(own, Quota) else self._state.quotas.get(quota_id)

    def account(self, project: ProjectId, user: UserId) -> Account | None:
        """An account as this draft has it."""
        name = account_id(project, user)
        own = self._own.get((Account, name))
        return own if isinstance(own, Account) else self._state.accounts.get(name)

    def user(self, name: UserId) -> User | None:
        """A user as this draft has it."""
        own = self._own.get((User, name))
        return own if isinstance(own, User) else self._state.people.users.get(name)

    def unix_name(self, name: UserId) -> str | None:
        """The Unix account that a user's jobs run as; None = the one that agents have for everybody."""
        user = self.user(name)
        return None if user is None else user.unix_name

    def key(self, key_id: KeyId) -> ApiKey | None:
        """A key as this draft has it."""
        own = self._own.get((ApiKey, key_id))
        return own if isinstance(own, ApiKey) else self._state.people.keys.get(key_id)

    def secret_names(self, owner: UserId) -> SecretNames | None:
        """What the log tells of somebody's secrets, as this draft has it."""
        own = self._own.get((SecretNames, owner))
        return own if isinstance(own, SecretNames) else self._state.secret_names.get(owner)

    def action(self, id_: str) -> Action | None:
        """The last action of a sort, as this draft has it."""
        own = self._own.get((Action, id_))
        return own if isinstance(own, Action) else self._state.actions.get(id_)

    def notice(self, kind: type[N], id_: str) -> N | None:
        """A record of notices as this draft has it, as long as it is not over."""
        own = self._own.get((kind, id_)) or self._state.noticed.find(kind, id_)
        return own if isinstance(own, kind) else None

    def leases_outside(self, session_id: SessionId) -> list[Lease]:
        """What a session holds without kernels, as this draft has it."""
        known = {lease.id: lease for lease in self._state.outside.of(session_id)}
        own = {id_: record for (_, id_), record in self._own.items() if isinstance(record, Lease)}
        mine = {id_: record for id_, record in own.items() if record.session_id == session_id and not record.kernel_id}
        return [lease for lease in (known | mine).values() if lease.released_us is None]

    def kernels_in(self, session: Session) -> list[Kernel]:
        """The kernels of a session's newest attempt, by rank, as this draft has them."""
        known = {kernel.id: kernel for kernel in self._state.kernels_in(session)}
        for record in self._kernels_of.get(session.id, {}).values():
            if record.attempt == session.attempt:
                known[record.id] = record
        return sorted(known.values(), key=lambda kernel: kernel.rank)

    def meeting_ports_on(self, node_id: NodeId) -> set[int]:
        """Ports of a node at which ranks meet, without those that this draft gives or frees."""
        agents = self._state.agents_on(node_id)
        return {port for agent in agents for port in self._state.meeting_ports.taken_on(agent.id)}

    def put(self, record: R, what: str) -> R:
        """Insert or replace a record; `what` says what happened to it, in one word: `queued`, `granted`, ..."""
        current = self._own.get((type(record), record.id)) or self._current(record)
        written = replace(record, version=1 if current is None else current.version + 1)
        self._keep(written)
        self.writes.append(Write(record=written, kind=f"{_ENTITY[type(record)]}.{what}"))
        assert isinstance(written, type(record))
        self._tell_array(written)
        return written

    def release(self, lease: Lease, evidence: EndEvidence, *, now_us: int) -> Lease:
        """Give the devices of a lease back, and charge its owner for the time that he held them."""
        session = None if lease.session_id is None else self.session(lease.session_id)
        project = DEFAULT_PROJECT if session is None else session.project
        released = self.put(transitions.release(lease, evidence, now_us=now_us), "released")
        rate = self._state.books.rate(lease.id)
        self._usage = self._usage.held(-rate, user=lease.owner, project=project, now_us=now_us)
        self.merge(self._usage.record(project, lease.owner), "charged")
        return released

    def merge(self, record: R, what: str) -> R:
        """As `put`, but in place of what this draft wrote to the same record before: one write tells of all of it."""
        known = self._own.get((type(record), record.id))
        if known is None:
            return self.put(record, what)
        merged = replace(record, version=known.version)
        place = next(index for index, write in enumerate(self.writes) if write.record is known)
        self.writes[place] = Write(record=merged, kind=f"{_ENTITY[type(record)]}.{what}")
        self._keep(merged)
        return merged

    def _keep(self, record: Record) -> None:
        self._own[type(record), record.id] = record
        if isinstance(record, Kernel):
            self._kernels_of.setdefault(record.session_id, {})[record.id] = record

    def _tell_array(self, task: Record) -> None:
        """The array of a task that has ended hears of it in the same commit, whoever ended the task."""
        if not isinstance(task, Session) or task.ended_us is None or task.array_id is None or task.array_index is None:
            return
        array = self.session(task.array_id)
        if array is None or array.tasks is None:
            return
        told = settled(with_task(array, task.array_index, place=place_of(task)), now_us=task.ended_us)
        if told != array:
            self.merge(told, str(told.state) if told.is_ended else "task_ended")

    def _current(self, record: Record) -> Record | None:
        if isinstance(record, KINDS):
            return self._state.noticed.find(type(record), record.id)
        return _KNOWN[type(record)](self._state, record.id)


_KNOWN: Final[dict[type, Callable[[State, Any], Record | None]]] = {
    Session: lambda state, id_: state.sessions.get(id_),
    Kernel: lambda state, id_: state.kernels.get(id_),
    Lease: lambda state, id_: state.leases.get(id_),
    Agent: lambda state, id_: state.agents.get(id_),
    KnownSlot: lambda state, id_: state.slots.get(id_),
    PolicyDocument: lambda state, _: state.policy if state.policy.version else None,
    Quota: lambda state, id_: state.quotas.get(id_),
    Account: lambda state, id_: state.accounts.get(id_),
    Finding: lambda state, id_: state.findings.get(id_),
    User: lambda state, id_: state.people.users.get(id_),
    ApiKey: lambda state, id_: state.people.keys.get(id_),
    SecretNames: lambda state, id_: state.secret_names.get(id_),
    Action: lambda state, id_: state.actions.get(id_),
    Orchestration: lambda state, _: state.orchestration if state.orchestration.version else None,
}
"""How the state finds a record of each kind; a document that nobody ever wrote is not there."""
