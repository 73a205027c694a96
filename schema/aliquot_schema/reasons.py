"""Reasons for waiting: a closed list. A scheduling pass gives every waiting session exactly one, with evidence."""

from dataclasses import dataclass, field
from enum import StrEnum

from aliquot_schema.ids import AgentId, DeviceId, QuotaId, SessionId


class Reason(StrEnum):
    """Primary reason. `decide` checks them in this order and reports the first that applies."""

    STOPPED = "stopped"
    """An operator stopped the orchestrator; nothing is placed until it is started again."""
    CLUSTER_UNAVAILABLE = "cluster_unavailable"
    """No agent is registered, or none is reachable."""
    HELD = "held"
    """Held by a user or a reservation."""
    DEPENDENCY = "dependency"
    """Waits for sessions that it depends on."""
    NOT_BEFORE = "not_before"
    """Waits after a failed launch; retried at a known time."""
    NO_AGENT = "no_agent"
    """Agents that could run it exist, but all are suspect, lost, drained or excluded after a rejected launch."""
    ARRAY_LIMIT = "array_limit"
    """Its array's limit on parallel tasks is reached."""
    QUOTA = "quota"
    """Its start would exceed a quota."""
    BEHIND_HEAD = "behind_head"
    """The policy serves the queue in order, and an earlier session waits."""
    MAKING_ROOM = "making_room"
    """Other sessions are being preempted for it; it starts once they have ended."""
    RESERVED = "reserved"
    """It would fit now, but would use what is reserved for a session ahead of it."""
    INSUFFICIENT = "insufficient"
    """Not enough of a slot is free on any agent."""
    FRAGMENTED = "fragmented"
    """Enough is free in sum, but not in one piece, in equal parts, or on one agent."""
    GANG_INCOMPLETE = "gang_incomplete"
    """Some kernels of the session would fit, but not all of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Facts behind a reason: numbers and names, never the time of the pass, so that equal verdicts compare equal."""

    slot: str | None = None
    """The slot that is short."""
    requested: str | None = None
    """Amount of it one kernel needs, as text."""
    available: str | None = None
    """Amount of it that is free on the agent with most, as text."""
    fits_kernels: int | None = None
    """Gangs: how many kernels would fit now."""
    blocked_by: tuple[SessionId, ...] = ()
    """Sessions it waits for: dependencies, the head of the queue, or holders of what it needs."""
    agents: tuple[AgentId, ...] = ()
    devices: tuple[DeviceId, ...] = ()
    quota: QuotaId | None = None
    """The exceeded quota. `requested` is then what the whole session needs, and `available` what is left of the
    quota."""
    limit: str | None = None
    """What the quota allows: an amount of `slot`, or GPU-hours in a month."""
    held: str | None = None
    """Amount of `slot` that is held under the quota."""
    may_borrow: bool = False
    """`limit` is what the user or project owns; a preemptible session may hold more."""
    until_us: int | None = None
    """Known time of the next attempt, or of the head's start; microseconds UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Reason and evidence of one waiting session."""

    reason: Reason
    evidence: Evidence = field(default_factory=Evidence)
