"""Reasons for waiting, and kinds of remedies: two closed lists. A scheduling pass gives every waiting session exactly
one reason, with evidence."""

from typing import Final

from msgspec import Struct, field

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import AgentId, DeviceId, PoolId, QuotaId, SessionId


class Reason(DescribedStr):
    """Primary reason. `decide` checks them in this order and reports the first that applies."""

    STOPPED = "stopped", "An operator stopped the orchestrator; nothing is placed until it is started again."
    CLUSTER_UNAVAILABLE = "cluster_unavailable", "No agent is registered, or none is reachable."
    HELD = "held", "Held by a user or a reservation."
    DEPENDENCY = "dependency", "Waits for sessions that it depends on."
    NOT_BEFORE = "not_before", "Waits until a known time: after a failed launch, or for its booking to begin."
    NO_AGENT = (
        "no_agent",
        "Agents that could run it exist, but all are suspect, lost, drained or excluded after a rejected launch.",
    )
    ARRAY_LIMIT = "array_limit", "Its array's limit on parallel tasks is reached."
    QUOTA = "quota", "Its start would exceed a quota."
    BEHIND_HEAD = "behind_head", "The policy serves the queue in order, and an earlier session waits."
    MAKING_ROOM = "making_room", "Other sessions are being preempted for it; it starts once they have ended."
    RESERVED = "reserved", "It would fit now, but would use what is reserved for a session ahead of it."
    BOOKED = (
        "booked",
        "It would fit now, but could still run on devices that are booked by others when their window begins.",
    )
    INSUFFICIENT = "insufficient", "Not enough of a slot is free on any agent."
    FRAGMENTED = "fragmented", "Enough is free in sum, but not in one piece, in equal parts, or on one agent."
    GANG_INCOMPLETE = "gang_incomplete", "Some kernels of the session would fit, but not all of them together."


OUT_OF_LINE: Final = frozenset({Reason.HELD, Reason.DEPENDENCY, Reason.NOT_BEFORE, Reason.ARRAY_LIMIT, Reason.QUOTA})
"""Reasons with which a session has no position in the queue: it waits for something other than its turn."""


class Evidence(Struct, frozen=True, kw_only=True):
    """Facts behind a reason: numbers and names, never the time of the pass, so that equal verdicts compare equal."""

    slot: str | None = None
    """The slot that is short."""
    requested: str | None = None
    """Amount of it one kernel needs, as text."""
    available: str | None = None
    """Amount of it that is free on the agent with most, as text."""
    fits_kernels: int | None = None
    """Gangs: how many kernels would fit now."""
    is_one_switch: bool = False
    """Gangs: `fits_kernels` counts those on one switch, as the session requires."""
    blocked_by: tuple[SessionId, ...] = ()
    """Sessions it waits for: dependencies, the head of the queue, or holders of what it needs."""
    agents: tuple[AgentId, ...] = ()
    devices: tuple[DeviceId, ...] = ()
    pool: PoolId | None = None
    """The pool that it requires, whose agents do not have `slot`."""
    labels: tuple[str, ...] = ()
    """The labels that it requires, as NAME=VALUE, which no agent of its pool with `slot` has."""
    largest: str | None = None
    """Amount of `slot` that the largest agent has in all, which is less than one kernel needs; as text."""
    kernels_max: int | None = None
    """Gangs: how many kernels the agents in service could hold if they were empty."""
    quota: QuotaId | None = None
    """The exceeded quota. `requested` is then what the whole session needs, and `available` what is left of the
    quota."""
    limit: str | None = None
    """What the quota allows: an amount of `slot`, or GPU-hours in a month."""
    held: str | None = None
    """Amount of `slot` that is held under the quota."""
    is_temporary: bool = False
    """`agents` are on spot nodes, or on nodes that leave too early for the session's time limit."""
    leaves_us: int | None = None
    """When the last of these nodes leaves, microseconds UTC; None = not known."""
    may_borrow: bool = False
    """`limit` is what the user or project owns; a preemptible session may hold more."""
    booking: str | None = None
    """Name of the booking that it waits for, or that it would run into."""
    budget: str | None = None
    """The budget of the month that is used up, like `100.00 EUR`: of `quota`, or of `lowered_by`."""
    spent_pct: int | None = None
    """Part of that budget that is spent, in percent; None = the budget is 0."""
    lowered_by: QuotaId | None = None
    """The account whose budget is used up, so that the session is ordered with the priority `low`."""
    until_us: int | None = None
    """Known time of the next attempt, or of the head's start; microseconds UTC."""
    idle_s: int | None = None
    """`blocked_by` has to leave because it did not use its GPUs for this many seconds."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Reason and evidence of one waiting session."""

    reason: Reason
    evidence: Evidence = field(default_factory=Evidence)


class RemedyKind(DescribedStr):
    """What a remedy changes. The order is that of what it costs the session's owner, the least first."""

    RELEASE = "release", "The session is released from its hold."
    TIME_LIMIT = "time_limit", "A shorter time limit, so that it ends before a reservation."
    PREEMPTIBLE = "preemptible", "It may be preempted, and so may borrow idle devices that others own."
    MODEL = "model", "One more accelerator model is allowed, or any."
    POOL = "pool", "Another pool."
    PROJECT = "project", "Another project of the caller's, with quota left."
    PRIORITY = "priority", "A higher priority."
    FEWER_GPUS = "fewer_gpus", "Fewer GPUs, or a smaller share of one, per kernel."
    SHARE = "share", "A share of a GPU instead of whole ones."
    FEWER_KERNELS = "fewer_kernels", "Fewer kernels."
    WAIT = "wait", "Nothing changes: it starts when these sessions have ended."
    PREEMPT = "preempt", "A preemptible session is preempted and queued again behind this one."
    QUOTA = "quota", "An operator raises the quota that it waits for."
