"""Unit of work: changes drafted on the current state, and committed together or not at all."""

from typing import TypeVar

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.core.model.plan import devices_held
from aliquot.core.transitions import place_of, settled, with_task
from aliquot.service.ports import RowWrite
from aliquot.service.state.alerts import Notice
from aliquot.service.state.billing_entries import enter_change, enter_release, idle_time
from aliquot.service.state.state import State
from aliquot_schema.bookings import BookedDevice, Booking, BookingState
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
from aliquot_schema.resources.slots import MILLI
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
        self.writes: list[RowWrite] = []

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

    def is_possible_on_others(self, session: Session) -> bool:
        """Whether the agents that a session does not exclude could run it."""
        options = self._state.rules.allocation
        return self._state.feasible_requests.is_possible_on_others(session, options=options)

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

    def idle_action(self, session_id: SessionId) -> Action | None:
        """The record of a session that does not use its GPUs."""
        name = self._state.idle_cases.name_of(session_id)
        return None if name is None else self.action(name)

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

    def rendezvous_ports_on(self, node_id: NodeId) -> set[int]:
        """Rendezvous ports in use on a node; writes of this draft are not included."""
        agents = self._state.agents_on(node_id)
        return {port for agent in agents for port in self._state.live_kernels.ports_on(agent.id)}

    def put(self, record: R, what: str) -> R:
        """Insert or replace a record; `what` is the event, in one word: `queued`, `granted`, ..."""
        current = self.find(type(record), record.id)
        if isinstance(record, Session) and isinstance(current, Session) and self.policy().prices.rates:
            enter_change(self, current, record)
        version = 1 if current is None else current.version + 1
        written = self._as_stored(record if record.version == version else replace(record, version=version))
        self._keep(written)
        self.writes.append(RowWrite(record=written, kind=f"{KIND_OF[type(record)].entity}.{what}"))
        assert isinstance(written, type(record))
        self._update_array(written)
        return written

    def release(self, lease: Lease, evidence: EndEvidence, *, now_us: int) -> Lease:
        """Release a lease, and charge its owner for the time since the grant."""
        session = None if lease.session_id is None else self.session(lease.session_id)
        project = DEFAULT_PROJECT if session is None else session.project
        released = self.put(self._billed(transitions.release(lease, evidence, now_us=now_us)), "released")
        enter_release(self, released)
        rate = self._state.books.rate(lease.id)
        self._usage = self._usage.held(-rate, user=lease.owner, project=project, now_us=now_us)
        self.merge(self._usage.record(project, lease.owner), "charged")
        self._count_covered(lease, session, now_us=now_us)
        key = None if session is None or session.key_id is None else self.key(session.key_id)
        if key is not None and key.has_budget:
            use = rate * max(now_us // 1000 - lease.granted_us // 1000, 0)
            self.merge(replace(key, gpu_use=key.gpu_use + use), "charged")
        return released

    def _billed(self, lease: Lease) -> Lease:
        """A released lease with what its bill needs; unchanged without prices."""
        policy = self.policy()
        if not policy.prices.rates:
            return lease
        idle = idle_time(lease, self._state)
        return replace(lease, idle=idle, policy_version=policy.version)

    def _count_covered(self, lease: Lease, session: Session | None, *, now_us: int) -> None:
        """Note what a released lease held of its session's booking."""
        name = None if session is None else session.spec.booking
        booking = None if name is None else self.find(Booking, name)
        if booking is None or not booking.is_open:
            return
        node_id = self._state.node_of(lease.agent_id)
        devices = {BookedDevice(node_id, device) for given in lease.spec.values() for device in given}
        covered = self._covered(booking, devices, since_us=lease.granted_us, until_us=now_us)
        if covered:
            self.merge(replace(booking, covered=booking.covered + covered), "covered")

    def end_booking(self, booking: Booking, *, now_us: int) -> Booking:
        """End a booking, in its final state already, and charge its owner for what it kept idle."""
        known = self.find(Booking, booking.id)
        was_booked = known is not None and known.state is BookingState.BOOKED
        held_back = self._held_back(booking, now_us=now_us) if was_booked else 0
        ended = self.put(replace(booking, held_back=held_back, ended_us=now_us), str(booking.state))
        if held_back:
            self._usage = self._usage.charged_once(held_back, user=ended.owner, project=ended.project, now_us=now_us)
            self.merge(self._usage.record(ended.project, ended.owner), "charged")
        return ended

    def _held_back(self, booking: Booking, *, now_us: int) -> int:
        """What a booking kept idle from its start until now, in milli of a device x milliseconds."""
        until_us = min(now_us, booking.ends_us)
        window_ms = max(until_us // 1000 - booking.starts_us // 1000, 0)
        held = window_ms * sum(self._rate({device}) for device in booking.devices)
        for row in self._state.running_rows.rows():
            if row.booking == booking.id:
                since_us = row.started_us or until_us
                held -= self._covered(booking, devices_held(row.kernels), since_us=since_us, until_us=until_us)
        return max(held - booking.covered, 0)

    def _covered(self, booking: Booking, devices: set[BookedDevice], *, since_us: int, until_us: int) -> int:
        """What a session held of the devices of a booking within its window."""
        from_us, to_us = max(since_us, booking.starts_us), min(until_us, booking.ends_us)
        return max(to_us // 1000 - from_us // 1000, 0) * self._rate(devices & {*booking.devices})

    def _rate(self, devices: set[BookedDevice]) -> int:
        """Price of whole devices, in milli of a device."""
        charges = self._state.policy.charges.accelerator_milli
        models = {
            BookedDevice(agent.node_id, device.id): device.model
            for node_id in {device.node_id for device in devices}
            for agent in self._state.agents_on(node_id)
            for device in agent.devices
        }
        return sum(charges.get(models.get(device, ""), MILLI) for device in devices)

    def put_work(self, session: Session, what: str) -> Session:
        """As `put`, for a session that may have lost work: its owner is credited."""
        credited = self._usage.credited(self.session(session.id), session)
        written = self.put(session, what)
        if credited is not self._usage:
            self._usage = credited
            self.merge(credited.record(session.project, session.owner), "credited")
        return written

    def merge(self, record: R, what: str) -> R:
        """As `put`, but replaces this draft's earlier write to the same record, so that one event has all changes."""
        known = self._own.get((type(record), record.id))
        if known is None:
            return self.put(record, what)
        merged = replace(record, version=known.version)
        place = next(index for index, write in enumerate(self.writes) if write.record is known)
        self.writes[place] = RowWrite(record=merged, kind=f"{KIND_OF[type(record)].entity}.{what}")
        self._keep(merged)
        return merged

    def _as_stored(self, record: R) -> R:
        if not isinstance(record, Agent):
            return record
        stored = self._state.faults.as_stored(record, known=self._state.agents.get(record.id))
        assert isinstance(stored, type(record))
        return stored

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
