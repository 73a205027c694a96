"""Why a session is not placed: a closed list. A pass gives every waiting session exactly one, with its evidence."""

from dataclasses import dataclass, field
from enum import StrEnum

from aliquot_schema.ids import AgentId, DeviceId, QuotaId, SessionId


class Reason(StrEnum):
    """The primary reason. Listed in the order in which `decide` looks: the first that holds is given."""

    STOPPED = "stopped"
    """An operator stopped the orchestrator: no pass looks at it until it is started again."""
    CLUSTER_UNAVAILABLE = "cluster_unavailable"
    """No agent is registered, or none of them can be asked."""
    HELD = "held"
    """A person, or a reservation, holds it back."""
    DEPENDENCY = "dependency"
    """Waits for sessions that it depends on."""
    NOT_BEFORE = "not_before"
    """Waits after a failed launch; tried again at a known time."""
    NO_AGENT = "no_agent"
    """Agents that could run it exist, but all of them are suspect, lost, drained or excluded after a refusal."""
    ARRAY_LIMIT = "array_limit"
    """As many tasks of its array run as may at one time."""
    QUOTA = "quota"
    """Its start would exceed a quota."""
    BEHIND_HEAD = "behind_head"
    """The policy serves the queue in order, and an earlier session is waiting."""
    MAKING_ROOM = "making_room"
    """Other sessions were asked to make room for it; it starts when they have."""
    RESERVED = "reserved"
    """It would fit now, and would take from the head of the queue what that is promised."""
    INSUFFICIENT = "insufficient"
    """Not enough of a slot is free on any agent."""
    FRAGMENTED = "fragmented"
    """Enough is free in sum, but not in one piece, in equal parts, or on one agent."""
    GANG_INCOMPLETE = "gang_incomplete"
    """Some kernels of the session would fit, not all of them at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a reason rests on. Holds numbers and names only, never the time of the pass."""

    slot: str | None = None
    """The slot that is short."""
    requested: str | None = None
    """How much of it one kernel needs, as text."""
    available: str | None = None
    """How much of it is free on the agent that has most, as text."""
    fits_kernels: int | None = None
    """For a gang: how many of its kernels would fit now."""
    blocked_by: tuple[SessionId, ...] = ()
    """Sessions in the way: those it waits for, the head, or the holders of what it needs."""
    agents: tuple[AgentId, ...] = ()
    devices: tuple[DeviceId, ...] = ()
    quota: QuotaId | None = None
    """The quota that stands against it; `slot`, `requested` and `available` then say what of it is left."""
    until_us: int | None = None
    """The known time at which it is looked at again, or at which the head is to start, microseconds UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why one session waits."""

    reason: Reason
    evidence: Evidence = field(default_factory=Evidence)
