"""Reason texts: one sentence for a person per verdict, from its evidence alone, in people's units ("2 GPUs")."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.resources.units import parse_size

NAMED_MAX: Final = 3
"""Sessions, agents or devices named in one sentence."""
_GPU_KINDS: Final = frozenset({"cuda", "rocm"})
_BINARY_UNITS: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def explain(verdict: Verdict) -> str:
    """Why a session waits, as one sentence."""
    return _TEXTS[verdict.reason](verdict.evidence)


def amount_text(slot: str | None, amount: str | None) -> str:
    """An amount of a slot as people write it.

    Args:
        amount: as evidence holds it: decimal text, or a size for slots of memory.
    Returns:
        `2 GPUs`, `0.25 GPU`, `8 cores`, `9.4 GiB of memory`; other slots by their own name.
    """
    slot, amount = slot or "", amount or "0"
    kind, _, unit = slot.partition(".")
    if slot == "mem":
        return f"{_size_text(amount)} of memory"
    if unit == "mem":
        return f"{_size_text(amount)} of {_device_name(kind)} memory"
    number = amount.rstrip("0").rstrip(".") if "." in amount else amount
    noun = "core" if slot == "cpu" else _device_name(kind) if unit in ("device", "shares") else ""
    if not noun:
        return f"{number} {slot}".rstrip()
    is_single = number == "1" or number.startswith("0.")
    return f"{number} {noun}" if is_single else f"{number} {noun}s"


def _insufficient(evidence: Evidence) -> str:
    requested, available = (amount_text(evidence.slot, text) for text in (evidence.requested, evidence.available))
    return f"Each kernel needs {requested}, and no agent has more than {available} free{_held_by(evidence)}."


def _fragmented(evidence: Evidence) -> str:
    what = {None: "of each resource is", "cpu": "cores are", "mem": "memory is"}.get(evidence.slot)
    return f"Enough {what or f'{evidence.slot} is'} free in total, but not in one place{_held_by(evidence)}."


def _gang(evidence: Evidence) -> str:
    return f"{evidence.fits_kernels} of its kernels fit now, and all must start together{_held_by(evidence)}."


def _no_agent(evidence: Evidence) -> str:
    if not evidence.agents:
        return "No agent in service can run it."
    why = f"{_some(evidence.devices)} there is unhealthy" if evidence.devices else "takes no sessions now"
    return f"Only {_some(evidence.agents)} can run it, and {why}."


def _quota(evidence: Evidence) -> str:
    scope, _, name = (evidence.quota or "").partition(":")
    holder = f"{scope.capitalize()} {name}" if name else "The cluster"
    own = "their" if scope == "user" else "its"
    if evidence.slot:
        requested, available = (amount_text(evidence.slot, text) for text in (evidence.requested, evidence.available))
        return f"{holder} has {available} left in {own} quota; this session needs {requested}."
    if evidence.until_us is None:
        return f"{holder} has used {own} quota."
    renewed = datetime.fromtimestamp(evidence.until_us // 1_000_000, tz=UTC)
    return f"{holder} has used {own} GPU-hours of this month; the quota renews on {renewed:%Y-%m-%d} UTC."


def _preempting(evidence: Evidence) -> str:
    return f"Starts when {_some(evidence.blocked_by) or 'preempted sessions'} have released their devices."


def _held_by(evidence: Evidence) -> str:
    return f"; held by {_some(evidence.blocked_by)}" if evidence.blocked_by else ""


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(names[:NAMED_MAX])
    return f"{listed} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else listed


def _device_name(kind: str) -> str:
    return "GPU" if kind in _GPU_KINDS else kind.upper()


def _size_text(text: str) -> str:
    size = parse_size(text)
    unit, scale = next((known for known in _BINARY_UNITS if size >= known[1]), ("bytes", 1))
    return f"{round(size / scale, 1):g} {unit}"


_TEXTS: Final[Mapping[Reason, Callable[[Evidence], str]]] = {
    Reason.STOPPED: lambda _: "The orchestrator is stopped; the session can start after an operator starts it again.",
    Reason.CLUSTER_UNAVAILABLE: lambda _: "No agent accepts sessions now; the session waits for one to come back.",
    Reason.HELD: lambda _: "Held until it is released.",
    Reason.DEPENDENCY: lambda evidence: f"Waits for {_some(evidence.blocked_by)}.",
    Reason.NOT_BEFORE: lambda _: "Its last launch failed; it is tried again after a pause.",
    Reason.NO_AGENT: _no_agent,
    Reason.ARRAY_LIMIT: lambda _: "Its array already runs as many tasks as max_parallel allows.",
    Reason.QUOTA: _quota,
    Reason.BEHIND_HEAD: lambda evidence: f"Waits behind {_some(evidence.blocked_by)}, which is next in the queue.",
    Reason.MAKING_ROOM: _preempting,
    Reason.RESERVED: lambda evidence: f"Fits now, but would delay {_some(evidence.blocked_by)}, which is next.",
    Reason.INSUFFICIENT: _insufficient,
    Reason.FRAGMENTED: _fragmented,
    Reason.GANG_INCOMPLETE: _gang,
}
