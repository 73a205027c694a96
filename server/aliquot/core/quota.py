"""Quotas: who may start under them, who borrows what others own, and who may call it back.

Amounts are counted as `quota_amounts` says. What a quota does not name it does not limit.
"""

from collections.abc import Iterable
from copy import copy
from typing import Final

from aliquot.core.months import month_after, month_of, starts_us
from aliquot.core.policy import Policy
from aliquot.core.quota_amounts import (
    Amounts,
    accelerators,
    counted,
    counted_as,
    counted_in,
    limits,
    text_of,
)
from aliquot.core.snapshot import PendingRow, Request, RunningRow, Snapshot
from aliquot_schema.ids import ProjectId, QuotaId, SlotName, UserId
from aliquot_schema.policies import Victims
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.slots import MILLI

HOUR: Final = MILLI * 3_600_000
"""An hour of a device, in milli x milliseconds."""


class _Line:
    """A quota in the book: what it allows, and what is held under it."""

    __slots__ = ("held", "most", "own", "quota", "staying")

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.most = limits(quota.max_slots)
        self.own = {} if quota.scope is QuotaScope.CLUSTER else limits(quota.own_slots)
        self.held: dict[SlotName, int] = {}
        self.staying: dict[SlotName, int] = {}
        """Held by sessions that were not asked to end."""

    def twin(self) -> "_Line":
        twin = copy(self)
        twin.held, twin.staying = dict(self.held), dict(self.staying)
        return twin

    def short(self, need: Amounts, *, of: Amounts) -> SlotName | None:
        """What would go beyond a limit, if this were held too."""
        for name, amount in need.items():
            if name in of and self.held.get(name, 0) + amount > of[name]:
                return name
        return None

    def spare(self, name: SlotName) -> int:
        """How much is lent to it: held by those who stay, and not its own; negative where its own is not used up."""
        return self.staying.get(name, 0) - self.own[name]


class QuotaBook:
    """The quotas of one pass, with what is held under them; it changes as the pass goes on."""

    def __init__(self, snapshot: Snapshot, *, policy: Policy, now_us: int) -> None:
        self._usage = snapshot.usage
        self._victims = policy.preemption.victims
        self._now_us = now_us
        self._lines = {name: _Line(quota) for name, quota in snapshot.quotas.items()}
        self._owned = dict.fromkeys(name for line in self._lines.values() for name in line.own)
        self._over: dict[tuple[UserId, ProjectId], tuple[_Line, ...]] = {}
        self._needs: dict[tuple[Request, int], Amounts] = {}
        self._spent: dict[QuotaId, bool] = {}
        if self._lines:
            for row in snapshot.running:
                self._count_running(row, sign=1)

    def copy(self) -> "QuotaBook":
        """Another book that says the same, to try things out in."""
        other = copy(self)
        other._lines = {name: line.twin() for name, line in self._lines.items()}
        other._over = {}
        return other

    def refusal(self, row: PendingRow) -> Verdict | None:
        """Why one more task of a row may not start under the quotas; None = it may."""
        lines = self._lines_over(row.owner, row.project)
        need = self._need(row) if lines else {}
        for line in lines:
            name = line.short(need, of=line.most)
            if name is not None:
                return _verdict(row, line, name, of=line.most, need=need)
        for line in lines:
            if self._is_spent(line.quota):
                until_us = starts_us(month_after(month_of(self._now_us)))
                return Verdict(reason=Reason.QUOTA, evidence=Evidence(quota=line.quota.id, until_us=until_us))
        if self._victims is Victims.WILLING and not row.is_preemptible:
            return _not_lent(row, lines, need=need)
        return None

    def borrows(self, row: PendingRow) -> bool:
        """Whether its start would take its user or its project beyond what is their own.

        Who owns nothing of what a row asks for does not borrow it: he uses what is nobody's.
        """
        lines = self._lines_over(row.owner, row.project)
        return any(line.short(self._need(row), of=line.own) is not None for line in lines)

    def may_reclaim(self, row: PendingRow) -> bool:
        """Whether the row asks for what is its user's or project's own, so that those who borrow must make room."""
        lines = self._lines_over(row.owner, row.project)
        deciding = _deciding(self._need(row))
        return not self.borrows(row) and all(any(name in line.own for line in lines) for name in deciding)

    def is_borrower(self, running: RunningRow) -> bool:
        """Whether a session runs on what others own, and its user and project keep their own without it.

        Of a session with accelerators these alone are looked at. One whose user and project own nothing of the kind
        borrows, as soon as anybody does own some.
        """
        if running.is_leaving:
            return False
        amounts = _deciding(counted_in(running.kernels))
        lines = self._lines_over(running.owner, running.project)
        lent = [(line.spare(name), amount) for line in lines for name, amount in amounts.items() if name in line.own]
        if not lent:
            return any(name in self._owned for name in amounts)
        return any(spare > 0 for spare, _ in lent) and not any(0 < spare < amount for spare, amount in lent)

    def take(self, row: PendingRow) -> None:
        """Count one more task of a row as held."""
        for line in self._lines_over(row.owner, row.project):
            _count(line.held, self._need(row), sign=1)
            _count(line.staying, self._need(row), sign=1)

    def give(self, running: RunningRow) -> None:
        """Count a session that was running when the pass began as gone."""
        if self._lines:
            self._count_running(running, sign=-1)

    def _count_running(self, row: RunningRow, *, sign: int) -> None:
        amounts = counted_in(row.kernels)
        for line in self._lines_over(row.owner, row.project):
            _count(line.held, amounts, sign=sign)
            if not row.is_leaving:
                _count(line.staying, amounts, sign=sign)

    def _lines_over(self, user: UserId, project: ProjectId) -> tuple[_Line, ...]:
        """Those of the user, the project and the cluster, as far as there are such quotas."""
        if not self._lines:
            return ()
        found = self._over.get((user, project))
        if found is None:
            names = names_over(user, project)
            found = tuple(self._lines[name] for name in names if name in self._lines)
            self._over[user, project] = found
        return found

    def _need(self, row: PendingRow) -> Amounts:
        key = row.request, row.cluster_size
        found = self._needs.get(key)
        if found is None:
            found = self._needs[key] = counted(row.request, times=row.cluster_size)
        return found

    def _is_spent(self, quota: Quota) -> bool:
        if quota.gpu_hours_per_month is None:
            return False
        if quota.id not in self._spent:
            charged = self._usage.charged_in_month(quota.scope, quota.name, self._now_us)
            self._spent[quota.id] = charged >= quota.gpu_hours_per_month * HOUR
        return self._spent[quota.id]


def _verdict(row: PendingRow, line: _Line, name: SlotName, *, of: Amounts, need: Amounts) -> Verdict:
    """That a limit stands against a row, in the words of the slot that it asks for."""
    slot = asked_as(name, (slot for slot, _ in row.request))
    evidence = Evidence(
        slot=slot,
        requested=text_of(slot, need[name]),
        available=text_of(slot, max(of[name] - line.held.get(name, 0), 0)),
        quota=line.quota.id,
    )
    return Verdict(reason=Reason.QUOTA, evidence=evidence)


def _not_lent(row: PendingRow, lines: Iterable[_Line], *, need: Amounts) -> Verdict | None:
    for line in lines:
        name = line.short(need, of=line.own)
        if name is not None:
            return _verdict(row, line, name, of=line.own, need=need)
    return None


def _deciding(amounts: Amounts) -> Amounts:
    """What lending is about: accelerators; cores and memory only for who asks for nothing else."""
    return accelerators(amounts) or amounts


def asked_as(name: SlotName, slots: Iterable[SlotName]) -> SlotName:
    return next((slot for slot in slots if counted_as(slot) == name), name)


def names_over(user: UserId, project: ProjectId) -> tuple[QuotaId, ...]:
    return (
        quota_id(QuotaScope.USER, user),
        quota_id(QuotaScope.PROJECT, project),
        quota_id(QuotaScope.CLUSTER),
    )


def _count(amounts: dict[SlotName, int], more: Amounts, *, sign: int) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + sign * amount
