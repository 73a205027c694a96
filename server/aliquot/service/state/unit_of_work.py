"""Unit of work: changes drafted on the current state, and committed together or not at all."""

from dataclasses import replace
from typing import TypeVar

from aliquot.core import transitions
from aliquot.core.transitions import place_of, settled, with_task
from aliquot.service.ports import Write
from aliquot.service.state.alerts import Notice
from aliquot.service.state.state import State
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.events import KIND_OF, Record
from aliquot_schema.identity.accounts import ApiKey, User
from aliquot_schema.identity.secrets import SecretNames
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
from aliquot_schema.orchestration import ORCHESTRATION_ID, Action, Orchestration
from aliquot_schema.policies import POLICY_ID, PolicyDocument
from aliquot_schema.quotas import Account, Quota, account_id
from aliquot_schema.resources.leases import EndEvidence, Kernel, Lease
from aliquot_schema.sessions import DEFAULT_PROJECT, Session

R = TypeVar("R", bound=Record)
N = TypeVar("N", bound=Notice)


class UnitOfWork:
    """Reads return the state overlaid with the draft's own writes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: dict[tuple[type, str], Record] = {}
        self._kernels_of: dict[SessionId, dict[KernelId, Kernel]] = {}
        """Kernels written by this draft."""
        self._usage = state.usage
        self.writes: list[Write] = []

    def find(self, kind: type[R], id_: str) -> R | None:
        """The record of a kind in this draft."""
        own = self._own.get((kind, id_))
        return own if isinstance(own, kind) else self._state.find(kind, id_)

    def session(self, session_id: SessionId) -> Session | None:
        """The session in this draft."""
        return self.find(Session, session_id)

    def kernel(self, kernel_id: KernelId) -> Kernel | None:
        """The kernel in this draft."""
        return self.find(Kernel, kernel_id)

    def lease(self, lease_id: LeaseId) -> Lease | None:
        """The lease in this draft."""
        return self.find(Lease, lease_id)

    def agent(self, agent_id: AgentId) -> Agent | None:
        """The agent in this draft."""
        return self.find(Agent, agent_id)

    def slot(self, name: SlotName) -> KnownSlot | None:
        """The slot in this draft."""
        return self.find(KnownSlot, name)

    def policy(self) -> PolicyDocument:
        """The policy in this draft; version 0 when none was ever stored."""
        return self.find(PolicyDocument, POLICY_ID) or self._state.policy

    def orchestration(self) -> Orchestration:
        """The orchestration record in this draft: whether scheduling is stopped."""
        return self.find(Orchestration, ORCHESTRATION_ID) or self._state.orchestration

    def quota(self, quota_id: QuotaId) -> Quota | None:
        """The quota in this draft."""
        return self.find(Quota, quota_id)

    def account(self, project: ProjectId, user: UserId) -> Account | None:
        """The account in this draft."""
        return self.find(Account, account_id(project, user))

    def user(self, name: UserId) -> User | None:
        """The user in this draft."""
        return self.find(User, name)

    def unix_name(self, name: UserId) -> str | None:
        """The Unix account that a user's jobs run as; None = the agent's default account."""
        user = self.user(name)
        return None if user is None or self._state.people.is_account_shared else user.unix_name

    def key(self, key_id: KeyId) -> ApiKey | None:
        """The API key in this draft."""
        return self.find(ApiKey, key_id)

    def secret_names(self, owner: UserId) -> SecretNames | None:
        """Names of a user's secrets in this draft; values are never in the event log."""
        return self.find(SecretNames, owner)

    def action(self, id_: str) -> Action | None:
        """The last action of one kind in this draft."""
        return self.find(Action, id_)

    def notice(self, kind: type[N], id_: str) -> N | None:
        """A record of alerts in this draft; None when it is over."""
        return self.find(kind, id_)

    def external_leases(self, session_id: SessionId) -> list[Lease]:
        """Open leases of an external allocation in this draft."""
        known = {lease.id: lease for lease in self._state.external_allocations.of(session_id)}
        own = {id_: record for (_, id_), record in self._own.items() if isinstance(record, Lease)}
        mine = {id_: record for id_, record in own.items() if record.session_id == session_id and not record.kernel_id}
        return [lease for lease in (known | mine).values() if lease.released_us is None]

    def kernels_in(self, session: Session) -> list[Kernel]:
        """The kernels of a session's newest attempt in this draft, by rank."""
        known = {kernel.id: kernel for kernel in self._state.kernels_in(session)}
        for record in self._kernels_of.get(session.id, {}).values():
            if record.attempt == session.attempt:
                known[record.id] = record
        return sorted(known.values(), key=lambda kernel: kernel.rank)

    def meeting_ports_on(self, node_id: NodeId) -> set[int]:
        """Rendezvous ports in use on a node; writes of this draft are not included."""
        agents = self._state.agents_on(node_id)
        return {port for agent in agents for port in self._state.rendezvous_ports.taken_on(agent.id)}

    def put(self, record: R, what: str) -> R:
        """Insert or replace a record; `what` is the event, in one word: `queued`, `granted`, ..."""
        current = self.find(type(record), record.id)
        written = replace(record, version=1 if current is None else current.version + 1)
        self._keep(written)
        self.writes.append(Write(record=written, kind=f"{KIND_OF[type(record)].entity}.{what}"))
        assert isinstance(written, type(record))
        self._update_array(written)
        return written

    def release(self, lease: Lease, evidence: EndEvidence, *, now_us: int) -> Lease:
        """Release a lease, and charge its owner for the time since the grant."""
        session = None if lease.session_id is None else self.session(lease.session_id)
        project = DEFAULT_PROJECT if session is None else session.project
        released = self.put(transitions.release(lease, evidence, now_us=now_us), "released")
        rate = self._state.books.rate(lease.id)
        self._usage = self._usage.held(-rate, user=lease.owner, project=project, now_us=now_us)
        self.merge(self._usage.record(project, lease.owner), "charged")
        return released

    def merge(self, record: R, what: str) -> R:
        """As `put`, but replaces this draft's earlier write to the same record, so that one event has all changes."""
        known = self._own.get((type(record), record.id))
        if known is None:
            return self.put(record, what)
        merged = replace(record, version=known.version)
        place = next(index for index, write in enumerate(self.writes) if write.record is known)
        self.writes[place] = Write(record=merged, kind=f"{KIND_OF[type(record)].entity}.{what}")
        self._keep(merged)
        return merged

    def _keep(self, record: Record) -> None:
        self._own[type(record), record.id] = record
        if isinstance(record, Kernel):
            self._kernels_of.setdefault(record.session_id, {})[record.id] = record

    def _update_array(self, task: Record) -> None:
        """Update the array of a task that has ended, in the same commit."""
        if not isinstance(task, Session) or task.ended_us is None or task.array_id is None or task.array_index is None:
            return
        array = self.session(task.array_id)
        if array is None or array.tasks is None:
            return
        updated = settled(with_task(array, task.array_index, place=place_of(task)), now_us=task.ended_us)
        if updated != array:
            self.merge(updated, str(updated.state) if updated.is_ended else "task_ended")
