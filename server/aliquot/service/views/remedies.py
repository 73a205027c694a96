"""Remedy views: what each remedy changes in words, the command that applies it, and the sessions it is about."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from aliquot.core.foresight.changes import ProposedChange, WaitingSession
from aliquot.core.foresight.remedies import Delay, Remedy, awaited
from aliquot.core.model.plan import Plan
from aliquot.core.model.snapshot import PendingRow, RunningRow, Snapshot
from aliquot.core.quota import is_beyond, quota_ids_for
from aliquot.core.scheduler.expected_ends import expected_end_us
from aliquot.core.validation.session import short_name
from aliquot.service.state.state import State
from aliquot.service.views.sessions import waits_view
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.billing import MICROS
from aliquot_schema.ids import QuotaId, SessionId, SlotName
from aliquot_schema.quotas import Quota, quota_holder
from aliquot_schema.reasons import RemedyKind, Verdict
from aliquot_schema.resources.slots import MILLI, amount_text, format_amount, is_accelerator
from aliquot_schema.resources.units import format_duration
from aliquot_schema.views.explanations import DelayView, OtherSessionView, RemedyView, SessionTermsView
from aliquot_schema.views.sessions import VerdictView, slot_amounts

NAMED_MAX: Final = 3
"""Sessions named in one sentence."""


class OtherSessions:
    """Views of other sessions in one snapshot.

    Args:
        plan: the decision on it, which knows the reservations of those that wait.
    """

    def __init__(self, state: State, snapshot: Snapshot, plan: Plan, *, now_us: int) -> None:
        self._state = state
        self._running = {held.session_id: held for held in snapshot.running}
        self._promised_us: Mapping[SessionId, int] = plan.promised_us()
        self._now_us = now_us

    def views(self, names: Iterable[SessionId]) -> tuple[OtherSessionView, ...]:
        """The sessions that are known, in the order given."""
        return tuple(view for name in names if (view := self.view(name)) is not None)

    def view(self, name: SessionId) -> OtherSessionView | None:
        """One session; None if it is not in memory."""
        session = self._state.sessions.get(name)
        if session is None:
            return None
        held = self._running.get(name)
        until_us = self._promised_us.get(name) if held is None else expected_end_us(held, now_us=self._now_us)
        return OtherSessionView(
            session_id=session.id,
            owner=session.owner,
            name=session.name,
            state=session.state,
            gpus=(session.gpus_milli if held is None else held.milli) / MILLI,
            until=moment_or_none(until_us),
            is_overdue=held is not None and held.ends_us <= self._now_us,
            preemptible=session.spec.preemptible,
        )

    def delays(self, delays: Iterable[Delay]) -> tuple[DelayView, ...]:
        """Sessions that would start later."""
        found = ((delay, self.view(delay.session_id)) for delay in delays)
        return tuple(
            DelayView(session=view, before=moment_or_none(delay.before_us), after=moment_or_none(delay.after_us))
            for delay, view in found
            if view is not None
        )


def waits_now(state: State, verdict: Verdict, snapshot: Snapshot, *, name: SessionId, now_us: int) -> VerdictView:
    """Why a session waits; under a full quota with the bookings that count as held."""
    view, evidence = waits_view(state, verdict, session=state.sessions.get(name)), verdict.evidence
    if evidence.quota is None or evidence.slot is None or not is_accelerator(evidence.slot) or is_beyond(evidence):
        return view
    quota = QuotaId(evidence.quota)
    under = [
        f"{one.name} of {one.owner}, {amount_text('cuda.device', str(len(one.devices)))} until "
        f"{moment(one.ends_us):%Y-%m-%d %H:%M} UTC"
        for one in sorted(snapshot.bookings, key=lambda one: (one.ends_us, one.id))
        if one.is_active(now_us) and one.devices and quota in quota_ids_for(one.owner, one.project)
    ]
    more = f" and {len(under) - NAMED_MAX} more" if len(under) > NAMED_MAX else ""
    booked = f" Held by bookings: {'; '.join(under[:NAMED_MAX])}{more}." if under else ""
    return replace(view, message=f"{view.message}{booked}")


def remedy_view(
    remedy: Remedy,
    scene: WaitingSession,
    others: OtherSessions,
    *,
    is_operator: bool,
    known: Collection[str],
) -> RemedyView:
    """A remedy for those who read it.

    Args:
        known: slots of the cluster.
    """
    change, row, quotas = remedy.change, scene.row, scene.snapshot.quotas
    gone = awaited(remedy, scene)
    preempted = [held for held in scene.snapshot.running if held.session_id in remedy.preempts]
    names = [held.session_id for held in gone] or remedy.preempts
    terms = terms_view(change)
    applies = is_operator if change.kind is RemedyKind.QUOTA else terms is not None or change.kind is RemedyKind.RELEASE
    return RemedyView(
        kind=change.kind,
        summary=_summary(change, row, gone=gone, quotas=quotas) + _preempting(preempted),
        starts_now=remedy.starts_us <= scene.now_us,
        starts_at=moment(remedy.starts_us),
        applies=applies,
        command=_command(change, row, terms, quotas=quotas, known=known),
        change=terms,
        sessions=others.views(names),
        delays=others.delays(remedy.delays),
    )


def terms_view(change: ProposedChange) -> SessionTermsView | None:
    """What `update_session` has to change; None for a change of something else."""
    after, kind = change.row, change.kind
    if kind is RemedyKind.TIME_LIMIT:
        return SessionTermsView(time_limit=(after.limit_ms or 0) / 1000)
    if kind is RemedyKind.PREEMPTIBLE:
        return SessionTermsView(preemptible=True)
    if kind is RemedyKind.MODEL:
        return SessionTermsView(models=after.where.models)
    if kind is RemedyKind.POOL:
        return SessionTermsView(pool=after.where.pool)
    if kind is RemedyKind.PROJECT:
        return SessionTermsView(project=after.project)
    if kind is RemedyKind.PRIORITY:
        return SessionTermsView(priority=after.priority.name.lower())
    if kind is RemedyKind.FEWER_KERNELS:
        return SessionTermsView(cluster_size=after.cluster_size)
    if kind in (RemedyKind.FEWER_GPUS, RemedyKind.SHARE):
        given = [(slot, format_amount(slot, amount)) for slot, amount in after.request if is_accelerator(slot)]
        return SessionTermsView(slots=slot_amounts(given))
    return None


def _command(
    change: ProposedChange,
    row: PendingRow,
    terms: SessionTermsView | None,
    *,
    quotas: Mapping[QuotaId, Quota],
    known: Collection[str],
) -> str | None:
    """The command that applies a change; of several quotas, one command each."""
    if change.kind is RemedyKind.RELEASE:
        return f"aliquot session release {row.session_id}"
    if change.kind is RemedyKind.QUOTA:
        return " && ".join(_quota_command(quota, quotas[quota.id], known=known) for quota in change.quotas)
    if terms is None:
        return None
    words = ["aliquot", "session", "change", row.session_id]
    for slot in terms.slots or ():
        words += ["-r", f"{short_name(slot.slot, slot.amount, known=known)}={slot.amount}"]
    if terms.cluster_size is not None:
        words += ["--cluster-size", str(terms.cluster_size)]
    if terms.time_limit is not None:
        words += ["--time-limit", f"{round(terms.time_limit / 60)}m"]
    if terms.preemptible:
        words.append("--preemptible")
    for option, value in (("--priority", terms.priority), ("--project", terms.project), ("--pool", terms.pool)):
        words += [option, value] if value is not None else []
    if terms.models is not None:
        words += [word for model in terms.models for word in ("--model", model)] or ["--any-model"]
    return shlex.join(words)


def _quota_command(after: Quota, before: Quota, *, known: Collection[str]) -> str:
    words = ["aliquot", "quota", "set", after.id]
    for option, now, then in (
        ("--max", dict(before.max_slots), dict(after.max_slots)),
        ("--own", dict(before.own_slots), dict(after.own_slots)),
    ):
        for slot, amount in then.items():
            if amount != now.get(slot):
                text = format_amount(slot, amount)
                words += [option, f"{short_name(slot, text, known=known)}={text}"]
    if after.gpu_hours_per_month != before.gpu_hours_per_month:
        words += ["--gpu-hours", str(after.gpu_hours_per_month)]
    if after.budget is not None and after.budget != before.budget:
        words += ["--budget", f"{after.budget / MICROS:g}"]
    return shlex.join(words)


def _summary(
    change: ProposedChange, row: PendingRow, *, gone: Sequence[RunningRow], quotas: Mapping[QuotaId, Quota]
) -> str:
    after, kind = change.row, change.kind
    if kind is RemedyKind.TIME_LIMIT:
        before = "" if row.limit_ms is None else f" instead of {format_duration(row.limit_ms / 1000)}"
        return f"with a time limit of {format_duration((after.limit_ms or 0) / 1000)}{before}"
    if kind is RemedyKind.MODEL:
        added = [model for model in after.where.models if model not in row.where.models]
        return f"if {added[0]} is allowed too" if added else "if any GPU model is allowed"
    if kind in (RemedyKind.FEWER_GPUS, RemedyKind.SHARE):
        each = " per kernel" if row.cluster_size > 1 else ""
        return f"with {_gpus(after)}{each} instead of {_gpus(row)}"
    if kind is RemedyKind.WAIT:
        verb = "has" if len(gone) == 1 else "have"
        return f"unchanged, when {_named(gone)} {verb} ended"
    if kind is RemedyKind.PREEMPT:
        [held] = change.gone
        return f"if {held.session_id} of {held.owner}, which allows preemption, is preempted"
    if kind is RemedyKind.QUOTA:
        raised = " and ".join(_raised(quota, quotas[quota.id]) for quota in change.quotas)
        return f"if an operator raises {raised}"
    return {
        RemedyKind.RELEASE: "when it is released",
        RemedyKind.PREEMPTIBLE: "if it may be preempted",
        RemedyKind.POOL: f"in pool {after.where.pool}",
        RemedyKind.PROJECT: f"in project {after.project}",
        RemedyKind.PRIORITY: f"with priority {after.priority.name.lower()}",
        RemedyKind.FEWER_KERNELS: f"with {_kernels(after.cluster_size)} instead of {_sizes(row)}",
    }[kind]


def _preempting(preempted: Sequence[RunningRow]) -> str:
    return f", which preempts {_named(preempted)}" if preempted else ""


def _gpus(row: PendingRow) -> str:
    found = [(slot, amount) for slot, amount in row.request if is_accelerator(slot)]
    return " and ".join(amount_text(slot, format_amount(slot, amount)) for slot, amount in found)


def _kernels(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count} kernels"


def _sizes(row: PendingRow) -> str:
    """`4`; of an elastic gang `3 to 4`."""
    return str(row.cluster_size) if row.kernels_max is None else f"{row.cluster_size} to {row.kernels_max}"


def _named(gone: Iterable[RunningRow]) -> str:
    names = [held.session_id for held in gone]
    listed = ", ".join(names[:NAMED_MAX])
    return f"{listed} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else listed


def _raised(after: Quota, before: Quota) -> str:
    """A raised quota: `the quota of project vision from 4 GPUs to 6 GPUs`."""
    holder = quota_holder(before.id)
    parts = [
        f"from {_amount(slot, before_slots[slot])} to {_amount(slot, amount)}"
        for before_slots, after_slots in ((before.max_slots, after.max_slots), (before.own_slots, after.own_slots))
        for slot, amount in after_slots.finite
        if amount != before_slots.get(slot)
    ]
    if after.gpu_hours_per_month != before.gpu_hours_per_month:
        parts.append(f"from {before.gpu_hours_per_month} to {after.gpu_hours_per_month} GPU-hours a month")
    if after.budget is not None and after.budget != before.budget:
        parts.append(f"from a budget of {(before.budget or 0) / MICROS:g} to {after.budget / MICROS:g} a month")
    return f"the quota of {holder[0].lower()}{holder[1:]} {' and '.join(parts)}"


def _amount(slot: SlotName, amount: object) -> str:
    return amount_text(slot, format_amount(slot, amount)) if isinstance(amount, int) else "no limit"
