"""Reasons in words: one sentence for a person, from the verdict's evidence alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aliquot_schema.reasons import Evidence, Reason, Verdict


def explain(verdict: Verdict) -> str:
    """Say why a session waits."""
    return _WORDS[verdict.reason](verdict.evidence)


def _insufficient(evidence: Evidence) -> str:
    return (
        f"needs {evidence.requested} {evidence.slot} per kernel, "
        f"and no agent has more than {evidence.available} free{_held_by(evidence)}"
    )


def _fragmented(evidence: Evidence) -> str:
    return f"enough {evidence.slot or 'of each slot'} is free in sum, but not together in one place{_held_by(evidence)}"


def _gang(evidence: Evidence) -> str:
    fits = f"{evidence.fits_kernels} of its kernels would fit now"
    return f"{fits}; they start all at once or not at all{_held_by(evidence)}"


def _no_agent(evidence: Evidence) -> str:
    if not evidence.agents:
        return "no agent that is left could run it"
    why = f"{_some(evidence.devices)} there is broken" if evidence.devices else "cannot be given anything now"
    return f"only {_some(evidence.agents)} could run it, and {why}"


def _quota(evidence: Evidence) -> str:
    left = f"; it asks for {evidence.requested} {evidence.slot}, {evidence.available} are left" if evidence.slot else ""
    return f"the quota {evidence.quota} stands against it{left}"


def _making_room(evidence: Evidence) -> str:
    return f"starts when {_some(evidence.blocked_by) or 'others'} have made room for it"


def _held_by(evidence: Evidence) -> str:
    return f"; held by {_some(evidence.blocked_by)}" if evidence.blocked_by else ""


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


_WORDS: Final[Mapping[Reason, Callable[[Evidence], str]]] = {
    Reason.STOPPED: lambda _: "the orchestrator is stopped; it starts when an operator has started that again",
    Reason.CLUSTER_UNAVAILABLE: lambda _: "no agent can be asked; it starts when one is back",
    Reason.HELD: lambda _: "held back until somebody releases it",
    Reason.DEPENDENCY: lambda evidence: f"waits for {_some(evidence.blocked_by)}",
    Reason.NOT_BEFORE: lambda _: "its last launch failed; it is tried again after a pause",
    Reason.NO_AGENT: _no_agent,
    Reason.ARRAY_LIMIT: lambda _: "as many tasks of its array run as its max_parallel allows",
    Reason.QUOTA: _quota,
    Reason.BEHIND_HEAD: lambda evidence: f"waits behind {_some(evidence.blocked_by)}, which is next",
    Reason.MAKING_ROOM: _making_room,
    Reason.RESERVED: lambda evidence: f"would fit now, and would delay {_some(evidence.blocked_by)}, which is next",
    Reason.INSUFFICIENT: _insufficient,
    Reason.FRAGMENTED: _fragmented,
    Reason.GANG_INCOMPLETE: _gang,
}
