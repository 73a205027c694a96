"""Statements: enters released leases and lost attempts into the statements of their accounts, in the same commit.

Nothing is entered while the policy has no prices.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from aliquot.core.billing.entries import HeldLease, StatementEntry, counts_of, held_milli_of, loss_of
from aliquot.service.state.state import State
from aliquot_schema.billing import Statement, statement_id
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.events import Record
from aliquot_schema.ids import AgentId, LeaseId, SessionId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session


class StatementChanges(Protocol):
    """The part of a unit of work that is read and written here."""

    def find(self, kind: type[Statement], id_: str) -> Statement | None:
        """The record in the draft."""

    def session(self, session_id: SessionId) -> Session | None:
        """The session in the draft."""

    def lease(self, lease_id: LeaseId) -> Lease | None:
        """The lease in the draft."""

    def agent(self, agent_id: AgentId) -> Agent | None:
        """The agent in the draft."""

    def policy(self) -> PolicyDocument:
        """The policy in the draft."""

    def kernels_in(self, session: Session) -> Sequence[Kernel]:
        """The kernels of a session's newest attempt in the draft, by rank."""

    def merge(self, record: Statement, what: str) -> Record:
        """Write a record, over an earlier write of it in the draft."""


def enter_release(draft: StatementChanges, lease: Lease) -> None:
    """Enter what a released lease held, if it was released under prices."""
    held = _held(draft, lease) if lease.policy_version else None
    if held is not None:
        _enter(draft, held.entries())


def enter_change(draft: StatementChanges, before: Session, after: Session) -> None:
    """Enter the end or preemption of a session and the work that it loses, before that change is written. Only for a
    policy with prices."""
    _enter(draft, counts_of(before, after))
    kernels = draft.kernels_in(before)
    loss = loss_of(before, after, kernels)
    if loss is None:
        return
    for kernel in kernels:
        lease = draft.lease(LeaseId(kernel.id))
        if lease is not None and lease.released_us is not None and lease.policy_version:
            held = _held(draft, lease)
            if held is not None:
                _enter(draft, held.lost(loss.lost_ms, kind=loss.kind, is_credited=loss.is_credited))


def idle_time(lease: Lease, state: State) -> int:
    """Measured idle time of the devices of a lease, in thousandths of a device x milliseconds."""
    agent = state.agents.get(lease.agent_id)
    if agent is None:
        return 0
    idle, devices = state.readings.idle_devices, {device.id: device for device in agent.devices}
    return sum(
        milli * (idle.total_us(agent.node_id, device_id, lease.id) // 1000)
        for device_id, milli in held_milli_of(lease.spec, devices).items()
    )


def _held(draft: StatementChanges, lease: Lease) -> HeldLease | None:
    agent = draft.agent(lease.agent_id)
    session = None if lease.session_id is None else draft.session(lease.session_id)
    prices = draft.policy().prices
    return None if agent is None else HeldLease(lease=lease, session=session, agent=agent, prices=prices)


def _enter(draft: StatementChanges, entries: Iterable[StatementEntry]) -> None:
    for entry in entries:
        for account in entry.accounts:
            known = draft.find(Statement, statement_id(account, entry.month))
            draft.merge(entry.added(account, known), "entered")
