"""Policy document: settings of ordering, backfill, placement, preemption and charging. One per cluster, versioned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from aliquot_schema.deprecation import Deprecation
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import PolicyId, PoolId
from aliquot_schema.resources.units import duration_seconds
from aliquot_schema.sessions import DEFAULT_POOL, Priority

DAY_MS: Final = 86_400_000
POLICY_ID: Final = PolicyId("policy")
"""Id of the single document."""
DURATION_NAMES: Final = frozenset(
    {"age_unit", "short_half", "level", "half_life", "default_limit", "run_min", "grace", "wait_first", "wait_max"}
)
"""Fields of a policy file that are durations: a number of seconds, or text like `7d`."""


class Backfill(StrEnum):
    """Which sessions may start before the head of the queue while the head does not fit."""

    NONE = "none"
    """None."""
    EASY = "easy"
    """Those that do not delay the head, which has a reservation. Source: Lifka, The ANL/IBM SP Scheduling System."""
    CONSERVATIVE = "conservative"
    """Those that delay no session ahead of them; each of these has a reservation."""


class PreemptScope(StrEnum):
    """Which sessions may be preempted."""

    NONE = "none"
    """None, and no quota is borrowed."""
    PREEMPTIBLE = "preemptible"
    """Sessions submitted as preemptible. Other sessions of users and projects with quota of their own cannot borrow
    beyond it. Lent quota is reclaimed from users without own quota even if their sessions are not preemptible."""
    ANY = "any"
    """Every session."""

    @classmethod
    def _missing_(cls, value: object) -> "PreemptScope | None":
        """The deprecated words, which stored policies and events of earlier versions have too."""
        return next((scope for scope, old in VICTIMS.items() if old.value == value), None)


class Victims(StrEnum):
    """Deprecated words of `PreemptScope`."""

    NOBODY = "nobody"
    WILLING = "willing"
    ANY = "any"


WAS_VICTIMS: Final = Deprecation(old="victims", new="preempt", removed_in="0.3")
VICTIMS: Final[Mapping[PreemptScope, Victims]] = {
    PreemptScope.NONE: Victims.NOBODY,
    PreemptScope.PREEMPTIBLE: Victims.WILLING,
    PreemptScope.ANY: Victims.ANY,
}


def preempt_word(preempt: str | None, victims: str | None, *, place: str = "") -> str | None:
    """The value of `preempt`, which may be given by its deprecated name or in its deprecated words.

    What is deprecated is reported as a warning, unless `victims` only repeats `preempt`, as in a printed policy.

    Args:
        place: see `Deprecation.warn`.
    Returns:
        The value in today's words; an unknown word as it is; None if neither is given.
    Raises:
        InvalidRequest: both are given and contradict each other.
    """
    words = {old.value: scope.value for scope, old in VICTIMS.items()}
    name, given = ("victims", victims) if preempt is None else ("preempt", preempt)
    if given is None:
        return None
    meant = words.get(given, given)
    if victims is not None and words.get(victims, victims) != meant:
        message = f"preemption: preempt is {preempt} and victims is {victims}; leave out victims, the deprecated name"
        raise InvalidRequest(message, field="preemption.preempt")
    if name == "victims" or meant != given:
        old, new = f"preemption.{name}={given}", f"preemption.preempt={meant}"
        Deprecation(old=old, new=new, removed_in=WAS_VICTIMS.removed_in).warn(place=place)
    return meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of the order policies. Whole numbers; only their ratios matter."""

    age: int = 1
    """`fair_share`: per `age_unit_ms` waited, without an upper limit."""
    age_unit_ms: int = 7 * DAY_MS
    fair: int = 1
    """`fair_share`: for an owner and a project without usage; half of it when usage equals their share."""
    short: int = 2
    """`fair_share`: for a session of zero length; half of it at `short_half_ms`."""
    short_half_ms: int = 4 * 3_600_000
    priority: int = 1
    """`fair_share`: per priority level above the lowest."""
    level_ms: int = DAY_MS
    """`priority`: the wait that is worth one level. After three of these the lowest precedes all later sessions."""
    sjf_age_pct: int = 10
    """`sjf`: percentage of its wait that is subtracted from a session's estimate. No session submitted later than
    estimate / percentage overtakes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """Prices of held resources in fair share and GPU-hours, in milli of a device."""

    accelerator_milli: Mapping[str, int] = field(default_factory=dict)
    """Per whole device, by model; 1000 for models that are missing."""
    cpu_milli: int = 5
    """Per core; not zero, so that fair share also works among users who only use CPUs."""
    mem_gib_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A named partition of the cluster's agents that sessions select."""

    default_limit_ms: int | None = None
    """Planned duration of a session without a time limit. It shapes reservations and never stops a session. None = the
    session's estimate."""
    cpu_per_gpu: int | None = None
    """CPUs of a session for each GPU, unless it requests CPUs itself; 0 = none. None = the least ratio among the pool's
    agents, see `core.validation.gpu_requests`. Fixed when the session is submitted."""
    mem_bytes_per_gpu: int | None = None
    """Likewise memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Preemption rules, for the order policy `priority` and for reclaiming lent quota."""

    preempt: PreemptScope = PreemptScope.PREEMPTIBLE
    run_ms_min: int = 600_000
    """A session is not preempted before it has run this long."""
    preemptions_max: int = 3
    """Upper bound on preemptions of one session."""
    grace_ms: int = 30_000
    """Time from the checkpoint signal to the stop, for sessions without their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Retries after infrastructure failures: a failed launch or a lost agent."""

    tries_min: int = 3
    """Minimum number of retries, even if the session requested fewer."""
    wait_ms_first: int = 1_000
    wait_ms_max: int = 300_000
    jitter_pct: int = 25
    """Waits double from retry to retry; each is varied randomly by up to this percentage in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """The scheduling policy. A change is an event and takes effect in the next pass."""

    id: PolicyId = POLICY_ID
    version: int = 0
    order: str = "fair_share"
    """Name of an order policy."""
    backfill: Backfill = Backfill.EASY
    backfill_depth: int = 100
    """`conservative`: upper bound on sessions with a reservation."""
    placement: str = "least_waste"
    """Name of a placement strategy."""
    allocation: str = "evenly"
    """How an amount is split over devices: `evenly` or `fill`."""
    allow_fragmentation: bool = False
    """Whether shares that fit on one empty device may be split when no device has enough free."""
    numa: str = "prefer"
    """`prefer` devices of one NUMA node, or `interleave`."""
    weights: Weights = field(default_factory=Weights)
    half_life_ms: int = 7 * DAY_MS
    """Half-life of usage in fair share."""
    charges: Charges = field(default_factory=Charges)
    pools: Mapping[PoolId, Pool] = field(default_factory=lambda: {DEFAULT_POOL: Pool()})
    preemption: Preemption = field(default_factory=Preemption)
    retries: Retries = field(default_factory=Retries)
    user_priority_max: Priority = Priority.NORMAL
    """The highest priority users may request; operators may request any."""
    changed_us: int = 0


def with_seconds(written: Any, *, path: str = "") -> Any:
    """Replace durations written as text by numbers of seconds, in a policy or a part of one.

    Raises:
        InvalidRequest: a duration has another form; the message names its field.
    """
    if isinstance(written, Mapping):
        return {
            name: duration_seconds(value, field=f"{path}{name}")
            if name in DURATION_NAMES and isinstance(value, str)
            else with_seconds(value, path=f"{path}{name}.")
            for name, value in written.items()
        }
    if isinstance(written, list):
        return [with_seconds(item, path=path) for item in written]
    return written
