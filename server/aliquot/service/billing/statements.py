"""Monthly statements of projects: what they held, by kind, its price, and why their sessions waited."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from aliquot.core.billing.budgets import devices_of
from aliquot.core.billing.entries import device_hours
from aliquot.core.billing.tariffs import cost
from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot.core.scheduler.shares import weight_of
from aliquot.service.billing.documents import csv_text, html_text
from aliquot.service.billing.fairness import fair_shares
from aliquot.service.operators import OperatorCommands
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot_schema.billing import MICROS, Statement, statement_id
from aliquot_schema.errors import InvalidRequest, NotFound
from aliquot_schema.ids import ProjectId, QuotaId
from aliquot_schema.quotas import QuotaScope, quota_id
from aliquot_schema.requests import Caller
from aliquot_schema.resources.units import format_duration
from aliquot_schema.views.billing import DocumentFormat, FairShareView, StatementLineView, StatementView

IDLE_NAMED: Final = 0.05
"""Idle and lost parts above this are named as a reason."""
WAIT_NAMED_S: Final = 60.0
"""A mean wait from this on is named."""
MONTH: Final = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
FIRST_MONTH: Final = 197001
LAST_MONTH: Final = 999812
"""The one after it must have a date too."""
_PROJECT: Final = f"{QuotaScope.PROJECT}:"


class Billing(OperatorCommands):
    """Queries of statements and fair shares. Visible to all users, like quotas and usage."""

    def statement(self, caller: Caller, *, project: str, month: str | None) -> StatementView:
        """The statement of a project.

        Args:
            month: like `2026-11`; None = the present one.
        Raises:
            InvalidRequest: the month is not one.
            NotFound: nothing was entered for the project in that month.
        """
        now_us = self._clock.now_us()
        wanted = month_of(now_us) if month is None else month_number(month)
        found = statement_view(self._state, ProjectId(project), month=wanted, now_us=now_us)
        if found is None:
            raise NotFound(
                f"project {project[:64]} has no statement for {month_text(wanted)}: nothing that it held was released "
                "in that month, or the policy had no prices",
                kind="statement",
                id=statement_id(quota_id(QuotaScope.PROJECT, project[:64]), wanted),
            )
        return found

    def statements(self, caller: Caller, *, month: str | None) -> tuple[StatementView, ...]:
        """The statements of all projects for a month, the one with the most device time first."""
        now_us = self._clock.now_us()
        wanted = month_of(now_us) if month is None else month_number(month)
        names = {ProjectId(one.account.removeprefix(_PROJECT)) for one in _of_projects(self._state, wanted)}
        names |= {row.project for row in self._state.running_rows.rows()}  # nothing of theirs may be released yet
        views = (statement_view(self._state, name, month=wanted, now_us=now_us) for name in sorted(names))
        return tuple(sorted((view for view in views if view is not None), key=lambda view: -view.held))

    def statement_document(self, caller: Caller, *, project: str, month: str | None, format: DocumentFormat) -> str:
        """A statement as a document. Raises as `statement`."""
        found = self.statement(caller, project=project, month=month)
        return csv_text(found) if format is DocumentFormat.CSV else html_text(found)

    def fair_shares(self, caller: Caller, *, user: str | None, project: str | None) -> tuple[FairShareView, ...]:
        """See `fair_shares`."""
        return fair_shares(self._state, user=user, project=project, now_us=self._clock.now_us())


def month_number(text: str) -> int:
    """A month like `2026-11` as 202611.

    Raises:
        InvalidRequest: it is written otherwise, or not within `FIRST_MONTH` to `LAST_MONTH`.
    """
    found = MONTH.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"month: {text[:20]!r} is not a month; write it like 2026-11", field="month")
    month = int(found[1] + found[2])
    if not FIRST_MONTH <= month <= LAST_MONTH:
        most = f"{month_text(FIRST_MONTH)} to {month_text(LAST_MONTH)}"
        raise InvalidRequest(f"month: {text} is not within {most}; give a month like 2026-11", field="month")
    return month


def month_text(month: int) -> str:
    """202611 as `2026-11`."""
    return f"{month // 100:04}-{month % 100:02}"


def statement_view(state: State, project: ProjectId, *, month: int, now_us: int) -> StatementView | None:
    """The statement of a project, with what its running sessions have held in the month; None without either."""
    account = quota_id(QuotaScope.PROJECT, project)
    found = state.statements.get(statement_id(account, month))
    open_time, open_cost = _open(state, project, month=month, now_us=now_us)
    if found is None and not open_time:
        return None
    entered = found or Statement(id=statement_id(account, month), account=account, month=month)
    share, entitlement = _share(state, account, month)
    quota, prices = state.quotas.get(account), state.policy.prices
    lines = tuple(
        StatementLineView(
            kind=kind,
            amount=amount,
            gpu_hours=round(device_hours(amount), 4),
            part=amount / entered.held if entered.held else 0.0,
        )
        for kind, amount in entered.by_kind.items()
    )
    return StatementView(
        project=project,
        month=month_text(month),
        currency=prices.currency,
        held=entered.held,
        gpu_hours=round(device_hours(entered.held), 4),
        lines=lines,
        ettr=1 - (entered.lost_failure + entered.lost_preemption) / entered.held if entered.held else None,
        cost=entered.cost / MICROS,
        credited=entered.credited / MICROS,
        budget=None if quota is None or quota.budget is None else quota.budget / MICROS,
        open_gpu_hours=round(device_hours(open_time), 4),
        open_cost=open_cost / MICROS,
        sessions=entered.sessions,
        mean_wait=entered.waited_ms / 1000 / entered.sessions if entered.sessions else None,
        preemptions=entered.preemptions,
        share=share,
        entitlement=entitlement,
        behind=tuple(_behind(state, entered, share=share, entitlement=entitlement, is_now=month == month_of(now_us))),
    )


def _open(state: State, project: ProjectId, *, month: int, now_us: int) -> tuple[int, int]:
    """Device time, and its price, that running sessions of a project have held in a month; none without prices."""
    if not state.policy.prices.rates:
        return 0, 0
    from_ms, until_ms = starts_us(month) // 1000, min(starts_us(month_after(month)), now_us) // 1000
    snapshot = take(state)
    agents = {agent.id: agent for agent in snapshot.agents}
    held = price = 0
    for row in snapshot.running:
        if row.project == project and row.granted_us is not None:
            devices, since_ms = devices_of(row.kernels, agents), max(row.granted_us // 1000, from_ms)
            held += sum(device.milli for device in devices) * max(until_ms - since_ms, 0)
            price += cost(devices, state.policy.prices, since_ms=since_ms, until_ms=until_ms)
    return held, price


def _of_projects(state: State, month: int) -> Iterator[Statement]:
    for one in state.statements.values():
        if one.month == month and one.account.startswith(_PROJECT):
            yield one


def _share(state: State, account: QuotaId, month: int) -> tuple[float, float]:
    """(share of what all projects held, entitlement by the weights of these projects)."""
    held = {one.account: one.held for one in _of_projects(state, month)}
    weights = {name: weight_of(state.quotas.get(name)) for name in (*held, account)}
    total, weight = sum(held.values()), sum(weights.values())
    return held.get(account, 0) / total if total else 0.0, weights[account] / weight if weight else 0.0


def _behind(state: State, found: Statement, *, share: float, entitlement: float, is_now: bool) -> Iterator[str]:
    """Why sessions of a project waited, the largest causes first."""
    wait_s = found.waited_ms / 1000 / found.sessions if found.sessions else 0.0
    if wait_s >= WAIT_NAMED_S:
        yield f"The sessions that ended had waited {format_duration(round(wait_s))} on average before they started."
    if share > entitlement and state.policy.order == "fair_share":
        yield (
            f"It held {100 * share:.1f} % of all device time with an entitlement of {100 * entitlement:.1f} %, so "
            "sessions of other projects came first under fair share."
        )
    if found.preemptions:
        yield f"Its sessions were preempted {found.preemptions} time{'s' if found.preemptions > 1 else ''}."
    lost = found.lost_failure + found.lost_preemption
    if found.held and lost > IDLE_NAMED * found.held:
        lost_pct = 100 * lost / found.held
        yield f"{lost_pct:.0f} % of what it held was lost to failures and preemption and had to be run again."
    if found.held and found.idle > IDLE_NAMED * found.held:
        yield f"{100 * found.idle / found.held:.0f} % of what it held was idle, and counted in its usage like the rest."
    quota = state.quotas.get(found.account)
    if quota is not None and quota.budget is not None and found.cost >= quota.budget:
        prices = state.policy.prices
        yield f"Its budget of {prices.text(quota.budget)} was used up: {prices.text(found.cost)} were spent."
    if is_now:
        yield from _waiting(state, found.account.removeprefix(_PROJECT))


def _waiting(state: State, project: str) -> Iterator[str]:
    """What its waiting sessions wait for now."""
    verdicts = state.verdicts
    reasons = Counter(
        str(verdicts[name].reason).replace("_", " ")
        for name in state.pending
        if name in verdicts and state.sessions[name].project == project
    )
    if reasons:
        yield "Waiting now: " + ", ".join(f"{count} for {reason}" for reason, count in reasons.most_common()) + "."
