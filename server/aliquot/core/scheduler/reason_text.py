"""Reason texts: one sentence for a person per verdict, from its evidence alone, in people's units ("2 GPUs")."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from aliquot.core.quota import is_beyond
from aliquot_schema.quotas import quota_holder
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.confinement import labels_text, upgrade_text
from aliquot_schema.resources.slots import amount_text, is_size, number_text
from aliquot_schema.resources.units import format_duration

NAMED_MAX: Final = 3
"""Sessions, agents or devices named in one sentence."""
_GPU_MAKERS: Final = {"cuda": "CUDA", "rocm": "ROCm"}


@lru_cache(maxsize=1024)
def explain(verdict: Verdict) -> str:
    """Why a session waits, as one sentence; a second one says what lowers its priority."""
    text, evidence = _TEXTS[verdict.reason](verdict.evidence), verdict.evidence
    return (
        text if evidence.lowered_by is None else f"{text} Its priority is low: {_spent(evidence.lowered_by, evidence)}."
    )


def _spent(account: str, evidence: Evidence) -> str:
    """That a budget is used up, with its numbers."""
    own = "their" if account.startswith("user:") else "its"
    holder = quota_holder(account)
    if evidence.spent_pct is None:
        return f"{holder} has a budget of {evidence.budget} this month"
    return f"{holder} has spent {evidence.spent_pct} % of {own} budget of {evidence.budget} this month"


def _insufficient(evidence: Evidence) -> str:
    requested = amount_text(evidence.slot, evidence.requested)
    available = number_text(evidence.slot, evidence.available)
    return f"Each kernel needs {requested}; agents have at most {available} free{_held_by(evidence)}."


def _fragmented(evidence: Evidence) -> str:
    what = {None: "of each resource is", "cpu": "cores are", "mem": "memory is"}.get(evidence.slot)
    return f"Enough {what or f'{evidence.slot} is'} free in total, but not in one place{_held_by(evidence)}."


def _gang(evidence: Evidence) -> str:
    if evidence.is_one_switch:
        fit = f"At most {evidence.fits_kernels} of its kernels fit on one switch now"
        return f"{fit}, and it requires all of them on one (topology: require){_held_by(evidence)}."
    return f"{evidence.fits_kernels} of its kernels fit now, and all must start together{_held_by(evidence)}."


def _no_agent(evidence: Evidence) -> str:
    if evidence.slot is not None:
        return _no_agent_with(evidence.slot, evidence)
    if evidence.is_temporary:
        return _temporary(evidence)
    if evidence.kernels_max is not None:
        where = "one switch in service" if evidence.is_one_switch else "the agents in service"
        others = f"the others need {_some(evidence.agents)}, {_away(evidence)}"
        rest = others if evidence.agents else "all must start together"
        return f"At most {evidence.kernels_max} of its kernels fit on {where}; {rest}."
    if not evidence.agents:
        return "No agent in service can run it."
    return f"Only {_some(evidence.agents)} can run it, {_away(evidence)}."


def _away(evidence: Evidence) -> str:
    """Why the named agents cannot be used now, as a clause."""
    if evidence.devices:
        return f"where {_some(evidence.devices)} {'is' if len(evidence.devices) == 1 else 'are'} unhealthy"
    return f"which {'takes' if len(evidence.agents) == 1 else 'take'} no sessions now"


def _no_agent_with(slot: str, evidence: Evidence) -> str:
    """That no agent has a slot, or has it together with what else a session requires."""
    if evidence.largest is not None:
        needs, most = amount_text(slot, evidence.requested), number_text(slot, evidence.largest)
        return f"Each kernel needs {needs}, and the largest agent has {most}. Ask for less, or for more kernels."
    kind = slot.partition(".")[0]
    name = f"{_GPU_MAKERS[kind]} GPU" if kind in _GPU_MAKERS else kind.upper()
    if evidence.pool is not None:
        return f"No agent of its pool {evidence.pool} has a {name}; agents of other pools have."
    if evidence.labels:
        text = f"No agent of its pool with a {name} {labels_text(evidence.labels)} now."
        return text + upgrade_text(evidence.labels)
    verb = "is" if len(evidence.devices) == 1 else "are"
    gone = f" any more: {_some(evidence.devices)} {verb} gone" if evidence.devices else ""
    return f"No agent has a {name}{gone}. It starts when one is back; a smaller request does not help."


def _temporary(evidence: Evidence) -> str:
    only = f"Only {_some(evidence.agents)} can run it"
    if evidence.leaves_us is None:
        return f"{only}, on spot nodes, which may be taken away at any time: these take only preemptible sessions."
    until = moment_text(evidence.leaves_us)
    there = f"it is there until {until}: it takes"
    if len(evidence.agents) > 1:
        there = f"the last of them leaves at {until}: they take"
    return f"{only}, and {there} only preemptible sessions, and those whose time limit ends before."


def _quota(evidence: Evidence) -> str:
    own = "their" if (evidence.quota or "").startswith("user:") else "its"
    holder = quota_holder(evidence.quota or "")
    if evidence.slot and evidence.limit is not None:
        limit = amount_text(evidence.slot, evidence.limit)
        held, needs = (number_text(evidence.slot, text) for text in (evidence.held, evidence.requested))
        what = f"{holder} {'owns' if evidence.may_borrow else 'may hold'} {limit} and holds {held}"
        if evidence.may_borrow:
            return (
                f"{what}; this session needs {needs}. Only a preemptible session may borrow idle {_plural(evidence)}."
            )
        if is_beyond(evidence):
            return f"{what}; this session needs {needs}. It cannot start under this quota."
        return f"{what}; this session needs {needs}. It starts when sessions under this quota have ended."
    if evidence.slot:
        requested, available = (amount_text(evidence.slot, text) for text in (evidence.requested, evidence.available))
        return f"{holder} has {available} left in {own} quota; this session needs {requested}."
    if evidence.budget is not None:
        return f"{_spent(evidence.quota or '', evidence)}; the next month begins at {moment_text(evidence.until_us)}."
    if evidence.until_us is None:
        return f"{holder} has used {own} quota."
    hours = f"{evidence.limit} GPU-hours" if evidence.limit else "GPU-hours"
    renewed = datetime.fromtimestamp(evidence.until_us // 1_000_000, tz=UTC)
    return f"{holder} has used {own} {hours} of this month; the quota renews on {renewed:%Y-%m-%d} UTC."


def _plural(evidence: Evidence) -> str:
    """The kind of what a quota limits, as a plural: `GPUs`, `cores`, `memory`."""
    return amount_text(evidence.slot, "2").partition(" ")[2] if not is_size(evidence.slot or "") else "memory"


def _not_before(evidence: Evidence) -> str:
    if evidence.booking is None:
        return "Its last attempt failed; it is tried again after a pause."
    return f"Its booking {evidence.booking} begins at {moment_text(evidence.until_us)}."


def _booked(evidence: Evidence) -> str:
    if evidence.until_us is None:
        why = ""
        if evidence.devices:
            why = f": {_some(evidence.devices)} {'is' if len(evidence.devices) == 1 else 'are'} not in service"
        elif evidence.agents:
            why = f": {_some(evidence.agents)} {'takes' if len(evidence.agents) == 1 else 'take'} no sessions now"
        free = f"Its booking {evidence.booking} has not enough free for it{why}"
        return f"{free}; other devices are not part of the booking."
    return (
        f"The devices that are free are booked ({evidence.booking}; next change at {moment_text(evidence.until_us)}). "
        "A session that ends before a booking begins, by its time limit, or that is preemptible, may use them until "
        "then."
    )


def moment_text(at_us: int | None) -> str:
    """A time in UTC, to the minute."""
    return f"{datetime.fromtimestamp((at_us or 0) // 1_000_000, tz=UTC):%Y-%m-%d %H:%M} UTC"


def _preempting(evidence: Evidence) -> str:
    who = _some(evidence.blocked_by) or "preempted sessions"
    have = "has released its" if len(evidence.blocked_by) == 1 else "have released their"
    if evidence.idle_s is not None:
        idle = format_duration(evidence.idle_s - evidence.idle_s % 60)
        they = "it" if len(evidence.blocked_by) == 1 else "they"
        return f"Starts when {who} {have} GPUs, which {they} had not used for {idle}."
    return f"Starts when {who} {have} devices."


def _held_by(evidence: Evidence) -> str:
    return f"; held by {_some(evidence.blocked_by)}" if evidence.blocked_by else ""


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(names[:NAMED_MAX])
    return f"{listed} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else listed


_TEXTS: Final[Mapping[Reason, Callable[[Evidence], str]]] = {
    Reason.STOPPED: lambda _: (
        "Scheduling is stopped; the session can start after an operator starts it again, or, if the server only "
        "observes, when it runs without --observe."
    ),
    Reason.CLUSTER_UNAVAILABLE: lambda _: "No agent accepts sessions now; the session waits for one to come back.",
    Reason.HELD: lambda _: "Held until it is released.",
    Reason.DEPENDENCY: lambda evidence: f"Waits for {_some(evidence.blocked_by)}.",
    Reason.NOT_BEFORE: _not_before,
    Reason.NO_AGENT: _no_agent,
    Reason.ARRAY_LIMIT: lambda _: "Its array already runs as many tasks at a time as it allows.",
    Reason.QUOTA: _quota,
    Reason.BEHIND_HEAD: lambda evidence: f"Waits behind {_some(evidence.blocked_by)}, which is next in the queue.",
    Reason.MAKING_ROOM: _preempting,
    Reason.RESERVED: lambda evidence: f"Fits now, but would delay {_some(evidence.blocked_by)}, which is next.",
    Reason.BOOKED: _booked,
    Reason.INSUFFICIENT: _insufficient,
    Reason.FRAGMENTED: _fragmented,
    Reason.GANG_INCOMPLETE: _gang,
}
