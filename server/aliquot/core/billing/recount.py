"""Recount: computes all statements again from the records of the event log, in its order.

Device time is counted twice, independently: held, per account and month, from the leases; and by kind, from the entries
of releases and losses. Both must agree, and with the stored statements.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aliquot.core.billing.entries import HeldLease, StatementEntry, accounts_of, counts_of, held_milli_of, loss_of
from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot_schema.billing import MICROS, Prices, Statement, TimeKind, statement_id
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.ids import AgentId, KernelId, LeaseId, SessionId
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import DEFAULT_PROJECT, Session

COUNTED: Final = (
    *(kind.value for kind in TimeKind),
    *("cost", "credited", "sessions", "waited_ms", "preemptions"),
)
"""Fields of `Statement` that are compared."""


class Recount:
    """Statements from records; feed it the record of every event, from the first one on."""

    def __init__(self) -> None:
        self.statements: dict[str, Statement] = {}
        self.held: dict[str, int] = defaultdict(int)
        """Device time by statement, from the leases alone."""
        self._prices: dict[int, Prices] = {}
        self._newest = Prices()
        self._agents: dict[AgentId, Agent] = {}
        self._sessions: dict[SessionId, Session] = {}
        self._kernels: dict[SessionId, dict[KernelId, Kernel]] = defaultdict(dict)
        self._leases: dict[LeaseId, Lease] = {}

    def apply(self, record: object) -> None:
        """Count the record of the next event; kinds that are not billed are skipped."""
        if isinstance(record, Lease):
            self._put_lease(record)
        elif isinstance(record, Session):
            self._put_session(record)
        elif isinstance(record, Kernel):
            self._kernels[record.session_id][record.id] = record
        elif isinstance(record, Agent):
            self._agents[record.id] = record
        elif isinstance(record, PolicyDocument):
            self._prices[record.version] = self._newest = record.prices

    def faults(self, stored: Iterable[Statement]) -> Iterator[str]:
        """What does not agree, one sentence each."""
        known = {statement.id: statement for statement in stored}
        for id_ in sorted({*known, *self.statements}):
            counted, here = self.statements.get(id_), known.get(id_)
            if counted is not None and counted.held != self.held[id_]:
                yield f"statement {id_}: its kinds sum to {counted.held}, and its leases held {self.held[id_]}"
            if _numbers(counted) != _numbers(here):
                yield f"statement {id_} is {_text(here)}, and the event log makes it {_text(counted)}"

    def _put_lease(self, lease: Lease) -> None:
        known = self._leases.get(lease.id)
        self._leases[lease.id] = lease
        if lease.released_us is None or not lease.policy_version or (known is not None and known.released_us):
            return
        held = self._held_lease(lease, self._prices.get(lease.policy_version, Prices()))
        if held is None:
            return
        self._enter(held.entries())
        self._count(lease, held)

    def _put_session(self, session: Session) -> None:
        before = self._sessions.get(session.id)
        self._sessions[session.id] = session
        kernels = [one for one in self._kernels[session.id].values() if one.attempt == session.attempt]
        loss = loss_of(before, session, kernels)
        if not self._newest.rates:
            return
        self._enter(counts_of(before, session))
        if loss is None:
            return
        for kernel in sorted(kernels, key=lambda one: one.rank):
            lease = self._leases.get(LeaseId(kernel.id))
            if lease is not None and lease.released_us is not None and lease.policy_version:
                held = self._held_lease(lease, self._newest)
                if held is not None:
                    self._enter(held.lost(loss.lost_ms, kind=loss.kind, is_credited=loss.is_credited))

    def _held_lease(self, lease: Lease, prices: Prices) -> HeldLease | None:
        agent = self._agents.get(lease.agent_id)
        session = None if lease.session_id is None else self._sessions.get(lease.session_id)
        return None if agent is None else HeldLease(lease=lease, session=session, agent=agent, prices=prices)

    def _enter(self, entries: Iterable[StatementEntry]) -> None:
        for entry in entries:
            for account in entry.accounts:
                id_ = statement_id(account, entry.month)
                self.statements[id_] = entry.added(account, self.statements.get(id_))

    def _count(self, lease: Lease, held: HeldLease) -> None:
        """Add what a lease held to its accounts, without the entries."""
        session, devices = held.session, {device.id: device for device in held.agent.devices}
        milli = sum(held_milli_of(lease.spec, devices).values())
        project = DEFAULT_PROJECT if session is None else session.project
        accounts = accounts_of(lease.owner, project, None if session is None else session.key_id)
        since_ms, until_ms = lease.granted_us // 1000, (lease.released_us or 0) // 1000
        while milli and since_ms < until_ms:
            month = month_of(since_ms * 1000)
            to_ms = min(until_ms, starts_us(month_after(month)) // 1000)
            for account in accounts:
                self.held[statement_id(account, month)] += milli * (to_ms - since_ms)
            since_ms = to_ms


def _numbers(statement: Statement | None) -> Mapping[str, int]:
    if statement is None:
        return {}
    return {name: getattr(statement, name) for name in COUNTED}


def _text(statement: Statement | None) -> str:
    if statement is None:
        return "missing"
    amounts = ", ".join(f"{name} {amount}" for name, amount in _numbers(statement).items() if name != "cost")
    return f"{amounts}, cost {statement.cost / MICROS:.6f}"
