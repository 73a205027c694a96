"""Budgets: what the accounts of a session have spent in the present month, and which budget is used up.

Spent is what the statements say, plus the price so far of what is held now.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.billing.entries import accounts_of, held_devices
from aliquot.core.billing.tariffs import PricedDevice, cost
from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import AgentRow, PendingRow, RunningRow, Snapshot
from aliquot_schema.billing import AtBudget, Prices, statement_id
from aliquot_schema.ids import AgentId, DeviceId, KeyId, ProjectId, QuotaId, UserId
from aliquot_schema.quotas import QuotaScope, quota_id
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.devices import Device
from aliquot_schema.sessions import DEFAULT_POOL, Priority
from aliquot_schema.states import SessionState

CLUSTER: Final = quota_id(QuotaScope.CLUSTER)
PERCENT: Final = 100


class SpentBudget(Struct, frozen=True):
    """A budget that is used up. Numbers are in whole percent, so that they seldom change from pass to pass."""

    account: QuotaId
    budget: str
    """For people, like `100.00 EUR`."""
    spent_pct: int | None
    """None = the budget is 0."""

    def refusal(self, *, now_us: int) -> Verdict:
        """The verdict that a session waits for the next month."""
        until_us = starts_us(month_after(month_of(now_us)))
        evidence = Evidence(quota=self.account, budget=self.budget, spent_pct=self.spent_pct, until_us=until_us)
        return Verdict(reason=Reason.QUOTA, evidence=evidence)

    def named_in(self, verdict: Verdict) -> Verdict:
        """The verdict of a session whose priority this budget lowers."""
        evidence = replace(verdict.evidence, budget=self.budget, spent_pct=self.spent_pct, lowered_by=self.account)
        return replace(verdict, evidence=evidence)


class Budgets:
    """The budgets of one moment. Each account is summed up once, when it is first asked for."""

    def __init__(self, snapshot: Snapshot, *, prices: Prices, now_us: int) -> None:
        self._snapshot = snapshot
        self._prices = prices
        self._now_us = now_us
        self._limited = {quota.id: quota for quota in snapshot.quotas.values() if quota.budget is not None}
        self._spent: dict[QuotaId, int] = {}

    @cached_property
    def _agents(self) -> dict[AgentId, AgentRow]:
        return {agent.id: agent for agent in self._snapshot.agents}

    @property
    def are_set(self) -> bool:
        """Whether there are prices, and any budget."""
        return bool(self._limited and self._prices.rates)

    def spent(self, account: QuotaId) -> int:
        """What an account has spent in this month, in millionths of the currency."""
        if account not in self._spent:
            month = month_of(self._now_us)
            settled = self._snapshot.costs.get(statement_id(account, month), 0)
            self._spent[account] = settled + self._open(account, since_ms=starts_us(month) // 1000)
        return self._spent[account]

    def used_up(self, owner: UserId, project: ProjectId, key_id: KeyId | None) -> SpentBudget | None:
        """The first budget of a holder's accounts that is used up; None without one."""
        if not self.are_set:
            return None
        for account in (*accounts_of(owner, project, key_id), CLUSTER):
            quota = self._limited.get(account)
            budget = None if quota is None else quota.budget
            if budget is not None and self.spent(account) >= budget:
                pct = self.spent(account) * PERCENT // budget if budget else None
                return SpentBudget(account, self._prices.text(budget), pct)
        return None

    def refusal(self, row: PendingRow) -> Verdict | None:
        """Why a row may not start under its budgets; None if it may."""
        if self._prices.at_budget is not AtBudget.HOLD:
            return None
        found = self.used_up(row.owner, row.project, row.key_id)
        return None if found is None else found.refusal(now_us=self._now_us)

    def lowered(self) -> list[tuple[PendingRow, SpentBudget]]:
        """Rows that are ordered with a low priority, each with the budget that is used up."""
        if not self.are_set or self._prices.at_budget is not AtBudget.LOW:
            return []
        found = []
        for row in self._snapshot.queue:
            spent = self.used_up(row.owner, row.project, row.key_id) if row.priority > Priority.LOW else None
            if spent is not None and row.state is SessionState.QUEUED:
                found.append((row, spent))
        return found

    def settled(self, row: RunningRow) -> Mapping[str, int]:
        """The costs of the snapshot once a running session has released what it holds."""
        costs, month = self._snapshot.costs, month_of(self._now_us)
        price = self._price(row, since_ms=starts_us(month) // 1000) if self.are_set else 0
        accounts = (*accounts_of(row.owner, row.project, row.key_id), CLUSTER) if price else ()
        names = [statement_id(account, month) for account in accounts]
        return {**costs, **{name: costs.get(name, 0) + price for name in names}} if price else costs

    def _open(self, account: QuotaId, *, since_ms: int) -> int:
        """The price so far of what an account holds now."""
        return sum(
            self._price(row, since_ms=since_ms)
            for row in self._snapshot.running
            if account == CLUSTER or account in accounts_of(row.owner, row.project, row.key_id)
        )

    def _price(self, row: RunningRow, *, since_ms: int) -> int:
        if row.granted_us is None:
            return 0
        from_ms = max(row.granted_us // 1000, since_ms)
        return cost(
            devices_of(row.kernels, self._agents), self._prices, since_ms=from_ms, until_ms=self._now_us // 1000
        )


def devices_of(kernels: Iterable[KernelPlacement], agents: Mapping[AgentId, AgentRow]) -> list[PricedDevice]:
    """The parts of accelerators that kernels hold."""
    found: list[PricedDevice] = []
    for kernel in kernels:
        agent = agents.get(kernel.agent_id)
        devices: Mapping[DeviceId, Device] = {} if agent is None else agent.layout.devices
        found += held_devices(kernel.spec, devices, pool=DEFAULT_POOL if agent is None else agent.pool)
    return found


def with_lowered(snapshot: Snapshot, rows: Sequence[PendingRow]) -> Snapshot:
    """The snapshot with a low priority of some rows; see `Budgets.lowered`."""
    if not rows:
        return snapshot
    low = [replace(row, priority=Priority.LOW) for row in rows]
    return replace(snapshot, queue=Queue.of(snapshot.queue).changed(left=rows, joined=low))
