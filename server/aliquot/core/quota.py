"""Quotas: limits of what users, projects and the cluster may hold, and borrowing of owned devices.

Amounts are counted by kind of device, so that a device with several slots counts once: an accelerator in milli under
the name of its shares (one `cuda.device` is 1000 of `cuda.shares`), everything else by its slot in base units. A slot
that a quota does not name is not limited by it.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from typing import Final

from msgspec.structs import replace

from aliquot.core.billing.budgets import Budgets
from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Request, RunningRow, Snapshot, milli_of
from aliquot_schema.bookings import BookedDevice, Booking
from aliquot_schema.errors import QuotaExceeded
from aliquot_schema.ids import BookingId, ProjectId, QuotaId, SlotName, UserId
from aliquot_schema.policies import PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_holder, quota_id
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.slots import (
    MILLI,
    SlotAmounts,
    amount_text,
    format_amount,
    format_milli,
    is_accelerator,
    parse_amount,
)
from aliquot_schema.sessions import SessionSpec

Amounts = Mapping[SlotName, int]
"""By counted slot; all > 0, except in limits."""
HOUR: Final = MILLI * 3_600_000
"""One hour of a device, in milli x milliseconds."""


def counted_as(slot: SlotName) -> SlotName:
    """The slot under which a slot is counted."""
    return SlotName(f"{slot.split('.')[0]}.shares") if milli_of(slot) else slot


def counted(pairs: Iterable[tuple[SlotName, int]], *, times: int = 1) -> dict[SlotName, int]:
    """Sum of amounts by counted slot."""
    found: dict[SlotName, int] = {}
    for slot, amount in pairs:
        name = counted_as(slot)
        found[name] = found.get(name, 0) + amount * (milli_of(slot) or 1) * times
    return found


def counted_in(kernels: Iterable[KernelPlacement]) -> dict[SlotName, int]:
    """Counted amounts that kernels hold."""
    return counted((slot, sum(amounts.values())) for kernel in kernels for slot, amounts in kernel.spec.items())


def booked_amounts(devices: Iterable[BookedDevice], *, agents: Iterable[AgentRow]) -> dict[SlotName, int]:
    """Counted amounts of booked devices, which are whole."""
    wanted = frozenset(devices)
    found: dict[BookedDevice, tuple[SlotName, int]] = {}
    for agent in agents:
        for device in agent.layout.devices.values():
            place = BookedDevice(agent.node_id, device.id)
            if place in wanted:
                slot = min(slot for slot in device.costs if is_accelerator(slot))
                found[place] = counted_as(slot), device.budget
    amounts: dict[SlotName, int] = {}
    for name, amount in found.values():
        amounts[name] = amounts.get(name, 0) + amount
    return amounts


def held_beside(row: RunningRow, *, active: Container[BookingId]) -> dict[SlotName, int]:
    """Counted amounts that a session holds; in an active booking without the devices, which count as held by that."""
    amounts = counted_in(row.kernels)
    return _without_accelerators(amounts) if row.booking in active else amounts


def limits(slots: SlotAmounts) -> dict[SlotName, int]:
    """Limits by counted slot; the smaller of two for one counted slot applies, 0 forbids, unlimited is left out."""
    found: dict[SlotName, int] = {}
    for pair in slots.finite:
        for name, amount in counted([pair]).items():
            found[name] = min(found.get(name, amount), amount)
    return found


def accelerators(amounts: Amounts) -> dict[SlotName, int]:
    """The amounts of accelerators."""
    return {name: amount for name, amount in amounts.items() if milli_of(name)}


def text_of(slot: SlotName, amount: int) -> str:
    """A counted amount as written for one of its slots."""
    unit = milli_of(slot)
    if unit <= 1:
        return format_amount(slot, amount)
    return format_milli(amount) if amount % MILLI else str(amount // MILLI)


class _Line:
    """One quota with what is held under it."""

    __slots__ = ("held", "most", "own", "quota", "staying")

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.most = limits(quota.max_slots)
        self.own = {} if quota.scope is QuotaScope.CLUSTER else limits(quota.own_slots)
        self.held: dict[SlotName, int] = {}
        self.staying: dict[SlotName, int] = {}
        """Held by sessions that have not been asked to end."""

    def copy(self) -> "_Line":
        other = copy(self)
        other.held, other.staying = dict(self.held), dict(self.staying)
        return other

    def short(self, need: Amounts, *, of: Amounts) -> SlotName | None:
        """The first slot whose limit in `of` would be exceeded if `need` were held too; None without one."""
        for name, amount in need.items():
            if name in of and self.held.get(name, 0) + amount > of[name]:
                return name
        return None

    def borrowed_amount(self, name: SlotName) -> int:
        """Amount borrowed: held by staying sessions beyond its own; negative if its own is not used up."""
        return self.staying.get(name, 0) - self.own[name]


class QuotaTracker:
    """The quotas of one pass with what is held under them, updated during the pass."""

    def __init__(self, snapshot: Snapshot, *, policy: Policy, now_us: int, bookings: Sequence[Booking] = ()) -> None:
        self._usage = snapshot.usage
        self._preempt = policy.preemption.preempt
        self._now_us = now_us
        self._lines = {name: _Line(quota) for name, quota in snapshot.quotas.items()}
        self._owned = dict.fromkeys(name for line in self._lines.values() for name in line.own)
        self._lines_by_account: dict[tuple[UserId, ProjectId], tuple[_Line, ...]] = {}
        self._needs: dict[tuple[Request, int, bool], Amounts] = {}
        self._spent: dict[QuotaId, bool] = {}
        self._budgets = Budgets(snapshot, prices=policy.prices, now_us=now_us) if policy.prices.rates else None
        self._active = frozenset(one.id for one in bookings if one.is_active(now_us))
        """Bookings whose devices count as held by their owners; what their sessions hold of them counts once."""
        if self._lines:
            for booking in bookings:
                if booking.id in self._active:
                    self._count_booked(booking, agents=snapshot.agents)
            for row in snapshot.running:
                self._count_running(row, sign=1)

    def copy(self) -> "QuotaTracker":
        """An independent copy, for trials."""
        other = copy(self)
        other._lines = {name: line.copy() for name, line in self._lines.items()}
        other._lines_by_account = {}
        return other

    def refusal(self, row: PendingRow) -> Verdict | None:
        """Why one more task of a row may not start under the quotas; None if it may."""
        lines = self._lines_for(row.owner, row.project)
        need = self._need(row) if lines else {}
        for line in lines:
            name = line.short(need, of=line.most)
            if name is not None:
                return _verdict(row, line, name, of=line.most, need=need)
        for line in lines:
            if self._is_spent(line.quota):
                until_us = starts_us(month_after(month_of(self._now_us)))
                hours = str(line.quota.gpu_hours_per_month)
                evidence = Evidence(quota=line.quota.id, until_us=until_us, limit=hours)
                return Verdict(reason=Reason.QUOTA, evidence=evidence)
        refusal = None if self._budgets is None else self._budgets.refusal(row)
        if refusal is None and self._preempt is PreemptScope.PREEMPTIBLE and not row.is_preemptible:
            return _borrow_refusal(row, lines, need=need)
        return refusal

    def most_kernels(self, row: PendingRow, *, least: int, most: int) -> int:
        """The largest gang of a row, of `least` to `most` kernels, that may start; the smallest one may."""
        while least < most:
            middle = (least + most + 1) // 2
            is_allowed = self.refusal(replace(row, cluster_size=middle)) is None
            least, most = (middle, most) if is_allowed else (least, middle - 1)
        return least

    def borrows(self, row: PendingRow) -> bool:
        """Whether the start of a row would take its user or project beyond what they own.

        Without any ownership of the requested slots a row uses unowned capacity and borrows nothing.
        """
        lines = self._lines_for(row.owner, row.project)
        return any(line.short(self._need(row), of=line.own) is not None for line in lines)

    def may_reclaim(self, row: PendingRow) -> bool:
        """Whether a row stays within what its user or project owns, so that borrowers may be preempted for it."""
        lines = self._lines_for(row.owner, row.project)
        deciding = _decisive(self._need(row))
        return not self.borrows(row) and all(any(name in line.own for line in lines) for name in deciding)

    def is_borrower(self, running: RunningRow) -> bool:
        """Whether a session runs on devices owned by others, and its user and project keep their own without it.

        Of a session with accelerators, only these count. A session whose user and project own none of a kind borrows if
        any other user or project owns some.
        """
        if running.is_leaving:
            return False
        amounts = _decisive(counted_in(running.kernels))
        lines = self._lines_for(running.owner, running.project)
        borrowed = [
            (line.borrowed_amount(name), amount)
            for line in lines
            for name, amount in amounts.items()
            if name in line.own
        ]
        if not borrowed:
            return any(name in self._owned for name in amounts)
        return any(borrowed_amount > 0 for borrowed_amount, _ in borrowed) and not any(
            0 < borrowed_amount < amount for borrowed_amount, amount in borrowed
        )

    def keeps_own(self, preempted: Iterable[tuple[RunningRow, bool]]) -> list[bool]:
        """Whether each session may be preempted after those before it that may; one marked True only while it borrows.

        Later ones are judged as if those before had ended.
        """
        left = self.copy()
        found = []
        for held, is_recalled in preempted:
            found.append(not is_recalled or left.is_borrower(held))
            if found[-1]:
                left.release(held)
        return found

    def refreshed(self, row: PendingRow, verdict: Verdict) -> Verdict:
        """The verdict of `refusal` with what is held now: rows refused early and late in a pass then agree."""
        evidence = verdict.evidence
        if evidence.quota is None or evidence.slot is None:
            return verdict
        line = self._lines[evidence.quota]
        of = line.own if evidence.may_borrow else line.most
        return _verdict(row, line, counted_as(SlotName(evidence.slot)), of=of, need=self._need(row))

    def take(self, row: PendingRow) -> None:
        """Count one more task of a row as held."""
        for line in self._lines_for(row.owner, row.project):
            _count(line.held, self._need(row), sign=1)
            _count(line.staying, self._need(row), sign=1)

    def release(self, running: RunningRow) -> None:
        """Count a session that was running at the start of the pass as ended."""
        if self._lines:
            self._count_running(running, sign=-1)

    def _count_running(self, row: RunningRow, *, sign: int) -> None:
        amounts = held_beside(row, active=self._active)
        for line in self._lines_for(row.owner, row.project):
            _count(line.held, amounts, sign=sign)
            if not row.is_leaving:
                _count(line.staying, amounts, sign=sign)

    def _lines_for(self, user: UserId, project: ProjectId) -> tuple[_Line, ...]:
        """Existing quotas of the user, the project and the cluster."""
        if not self._lines:
            return ()
        found = self._lines_by_account.get((user, project))
        if found is None:
            names = quota_ids_for(user, project)
            found = tuple(self._lines[name] for name in names if name in self._lines)
            self._lines_by_account[user, project] = found
        return found

    def _need(self, row: PendingRow) -> Amounts:
        is_booked = row.booking in self._active
        key = row.request, row.cluster_size, is_booked
        found = self._needs.get(key)
        if found is None:
            found = counted(row.request, times=row.cluster_size)
            found = self._needs[key] = _without_accelerators(found) if is_booked else found
        return found

    def _count_booked(self, booking: Booking, *, agents: Sequence[AgentRow]) -> None:
        for line in self._lines_for(booking.owner, booking.project):
            amounts = booked_amounts(booking.devices, agents=agents)
            _count(line.held, amounts, sign=1)
            _count(line.staying, amounts, sign=1)

    def _is_spent(self, quota: Quota) -> bool:
        if quota.gpu_hours_per_month is None:
            return False
        if quota.id not in self._spent:
            charged = self._usage.charged_in_month(quota.scope, quota.name, self._now_us)
            self._spent[quota.id] = charged >= quota.gpu_hours_per_month * HOUR
        return self._spent[quota.id]


def _verdict(row: PendingRow, line: _Line, name: SlotName, *, of: Amounts, need: Amounts) -> Verdict:
    """The verdict that a limit is too low for a row, in the slot that the row requests."""
    slot = requested_slot(name, (slot for slot, _ in row.request))
    held = line.held.get(name, 0)
    evidence = Evidence(
        slot=slot,
        requested=text_of(slot, need[name]),
        available=text_of(slot, max(of[name] - held, 0)),
        quota=line.quota.id,
        limit=text_of(slot, of[name]),
        held=text_of(slot, held),
        may_borrow=of is line.own,
    )
    return Verdict(reason=Reason.QUOTA, evidence=evidence)


def _borrow_refusal(row: PendingRow, lines: Iterable[_Line], *, need: Amounts) -> Verdict | None:
    for line in lines:
        name = line.short(need, of=line.own)
        if name is not None:
            return _verdict(row, line, name, of=line.own, need=need)
    return None


def _decisive(amounts: Amounts) -> Amounts:
    """The amounts that decide about borrowing: accelerators; cores and memory only without accelerators."""
    return accelerators(amounts) or amounts


def _without_accelerators(amounts: Amounts) -> dict[SlotName, int]:
    return {name: amount for name, amount in amounts.items() if not milli_of(name)}


def requested_slot(name: SlotName, slots: Iterable[SlotName]) -> SlotName:
    return next((slot for slot in slots if counted_as(slot) == name), name)


def is_beyond(evidence: Evidence) -> bool:
    """Whether a session needs more than a quota allows, whatever else is held under it."""
    slot, requested, limit = evidence.slot, evidence.requested, evidence.limit
    if slot is None or requested is None or limit is None:
        return False
    needs, most = parse_amount(slot, requested), parse_amount(slot, limit)
    return isinstance(needs, int) and isinstance(most, int) and needs > most


def quota_ids_for(user: UserId, project: ProjectId) -> tuple[QuotaId, ...]:
    return (
        quota_id(QuotaScope.USER, user),
        quota_id(QuotaScope.PROJECT, project),
        quota_id(QuotaScope.CLUSTER),
    )


def _count(amounts: dict[SlotName, int], more: Amounts, *, sign: int) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + sign * amount


def impossible_under(
    spec: SessionSpec, quotas: Mapping[QuotaId, Quota], *, user: UserId, project: ProjectId
) -> QuotaExceeded | None:
    """The error for a session that could not start even if nothing else were held or charged; None if it could.

    One possible fallback is enough.
    """
    requests = [
        (spec.slots, spec.cluster_size_min or spec.cluster_size),
        *((one.slots, one.cluster_size) for one in spec.fallbacks),
    ]
    first: QuotaExceeded | None = None
    for slots, cluster_size in requests:
        refusal = _too_much(slots.finite, _quotas_for(quotas, user, project), cluster_size=cluster_size)
        if refusal is None:
            return None
        first = first or refusal
    return first


def too_many_queued(
    tasks: int,
    quotas: Mapping[QuotaId, Quota],
    *,
    queued: Callable[[Quota], int],
    user: UserId,
    project: ProjectId,
) -> QuotaExceeded | None:
    """The error for a submission of more tasks than may wait at the same time; None if they may.

    Args:
        tasks: of the submission; every index of an array counts.
        queued: counts the tasks that already wait under a quota; only called for quotas that limit them.
    """
    for quota in _quotas_for(quotas, user, project):
        if quota.max_queued is not None:
            waiting = queued(quota) + tasks
            if not quota.max_queued and tasks:
                return QuotaExceeded(
                    f"{quota_holder(quota.id)} takes no sessions: its quota allows 0 waiting tasks"
                    + (". Submit to another project" if quota.scope is QuotaScope.PROJECT else ""),
                    quota=quota.id,
                    resource="queued",
                    requested=str(tasks),
                    limit="0",
                )
            if waiting > quota.max_queued:
                return QuotaExceeded(
                    f"{quota_holder(quota.id)} may have at most {quota.max_queued} waiting tasks, and {waiting} would "
                    "wait. Submit fewer, or try again when some have started",
                    quota=quota.id,
                    resource="queued",
                    requested=str(tasks),
                    limit=str(quota.max_queued),
                )
    return None


def _too_much(request: Request, quotas: Iterable[Quota], *, cluster_size: int) -> QuotaExceeded | None:
    need = counted(request, times=cluster_size)
    for quota in quotas:
        for name, limit in limits(quota.max_slots).items():
            if need.get(name, 0) > limit:
                slot = requested_slot(name, (slot for slot, _ in request))
                requested, most = text_of(slot, need[name]), text_of(slot, limit)
                holder, needs = quota_holder(quota.id), amount_text(slot, requested)
                return QuotaExceeded(
                    f"{holder} may hold at most {amount_text(slot, most)}, and this session needs {needs}. "
                    "Ask for less, or ask an administrator to raise the quota",
                    quota=quota.id,
                    resource=slot,
                    requested=requested,
                    limit=most,
                )
        if quota.gpu_hours_per_month == 0:
            return QuotaExceeded(
                f"{quota_holder(quota.id)} may use 0 GPU-hours a month. Ask an administrator to raise the quota",
                quota=quota.id,
                resource="gpu_hours",
                requested="",
                limit="0",
            )
    return None


def _quotas_for(quotas: Mapping[QuotaId, Quota], user: UserId, project: ProjectId) -> list[Quota]:
    return [quotas[name] for name in quota_ids_for(user, project) if name in quotas]
