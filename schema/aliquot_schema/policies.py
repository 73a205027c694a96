"""Policy document: settings of ordering, backfill, placement, preemption and charging. One per cluster, versioned."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from aliquot_schema.billing import Prices
from aliquot_schema.deprecation import Deprecation
from aliquot_schema.enums import DescribedStr
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import PolicyId, PoolId, ProjectId
from aliquot_schema.resources.units import duration_seconds
from aliquot_schema.sessions import DEFAULT_POOL, Priority

DAY_MS: Final = 86_400_000
POLICY_ID: Final = PolicyId("policy")
"""Id of the single document."""
AGE_UNIT_DEPRECATION: Final = (
    "Without effect: the unit of age is an hour and the backlog of the pool. Release 0.3 may remove it."
)
DURATION_NAMES: Final = frozenset(
    {
        "age_unit",
        "short_half",
        "level",
        "half_life",
        "default_limit",
        "run_min",
        "grace",
        "wait_first",
        "wait_max",
        "wait_bound",
        "restart",
        "tell",
        "again",
        "act",
        "keep",
    }
)
"""Fields of a policy file that are durations: a number of seconds, or text like `7d`."""


class Backfill(DescribedStr):
    """Which sessions may start before the head of the queue while the head does not fit."""

    NONE = "none", "None."
    EASY = (
        "easy",
        "Those that do not delay the head, which has a reservation. Source: Lifka, The ANL/IBM SP Scheduling System.",
    )
    CONSERVATIVE = "conservative", "Those that delay no session ahead of them; each of these has a reservation."


class PreemptScope(DescribedStr):
    """Which sessions may be preempted."""

    NONE = "none", "None, and no quota is borrowed."
    PREEMPTIBLE = (
        "preemptible",
        "Sessions submitted as preemptible. Other sessions of users and projects with quota of their own "
        "cannot borrow beyond it. Lent quota is reclaimed from users without own quota even if their sessions "
        "are not preemptible.",
    )
    ANY = "any", "Every session."

    @classmethod
    def _missing_(cls, value: object) -> "PreemptScope | None":
        """The deprecated words, which stored policies and events of earlier versions have too."""
        return next((scope for scope, old in VICTIMS.items() if old.value == value), None)


class Victims(DescribedStr):
    """Deprecated words of `PreemptScope`."""

    NOBODY = "nobody", "Old name of `none`."
    WILLING = "willing", "Old name of `preemptible`."
    ANY = "any", "The same in `PreemptScope`."


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


class Weights(Struct, frozen=True, kw_only=True):
    """Weights of the order policies. Whole numbers; only their ratios matter."""

    age: int = 4
    """`fair_share`, `relative_age`: per unit of age waited, an hour and the pool's backlog, without an upper limit."""
    age_unit_ms: int = 3_600_000
    """Without effect: the unit of age follows the backlog. Kept so that older policies can be read."""
    fair: int = 1
    """`fair_share`: for an owner and a project without usage; half of it when usage equals their share."""
    short: int = 8
    """`fair_share`, `relative_age`: for a session of zero length; half of it at `short_half_ms`."""
    short_half_ms: int = 4 * 3_600_000
    priority: int = 4
    """`fair_share`, `relative_age`: per priority level above the lowest."""
    level_ms: int = DAY_MS
    """`priority`: the wait that is worth one level. After three of these the lowest precedes all later sessions."""
    sjf_age_pct: int = 10
    """`sjf`: percentage of its wait that is subtracted from a session's estimate. No session submitted later than
    estimate / percentage overtakes it."""
    wait_bound_ms: int = 0
    """Every order: the wait within which a session is to start. One that would wait longer is promoted to the front.
    0 = none."""


FIXED_AGE_WEIGHTS: Final = Weights(age=1, age_unit_ms=7 * DAY_MS, fair=1, short=2, priority=1)
"""The default of releases whose unit of age was seven days. A server replaces it in a stored policy by today's default;
`age_unit_ms` tells it from weights that were set since."""


class Charges(Struct, frozen=True, kw_only=True):
    """Prices of held resources in fair share and GPU-hours, in milli of a device."""

    accelerator_milli: Mapping[str, int] = field(default_factory=dict)
    """Per whole device, by model; 1000 for models that are missing."""
    cpu_milli: int = 5
    """Per core; not zero, so that fair share also works among users who only use CPUs."""
    mem_gib_milli: int = 0


class IdleAction(DescribedStr):
    """What happens to a session that holds GPUs and does not use them."""

    OFF = "off", "Nothing."
    OBSERVE = "observe", "The steps are recorded and counted; the owner gets no notice and the session goes on."
    TELL = "tell", "The owner gets two notices; the session goes on."
    PREEMPT = (
        "preempt",
        "As `tell`; then it is preempted, with its checkpoint signal and grace period, if a waiting session "
        "starts for it.",
    )
    END = "end", "As `preempt`, but it is not queued again."


class IdleStep(DescribedStr):
    """Last step for a session that does not use its GPUs."""

    TOLD = "told", "The owner got a notice."
    TOLD_AGAIN = "told_again", "The owner got a second notice."
    DUE = "due", "It loses its GPUs as soon as a waiting session starts for it."
    KEPT = "kept", "The owner still needs it; the steps begin anew after `preemption.idle.keep`."
    ACTED = "acted", "It was preempted or ended."
    OVER = "over", "It uses its GPUs again, it ended, or the policy changed."


class IdleRules(Struct, frozen=True, kw_only=True):
    """Steps before a session that does not use its GPUs loses them; see `core.idle_process`."""

    action: IdleAction = IdleAction.OFF
    tell_ms: int = 1_800_000
    """Idle time after which the owner is told."""
    again_ms: int = 1_800_000
    """Further idle time after which the owner is told again."""
    act_ms: int = 1_800_000
    """Further idle time after which the session may be preempted or ended."""
    keep_ms: int = 4 * 3_600_000
    """For how long an owner's "still needed" stops the steps."""
    projects: Mapping[ProjectId, IdleAction] = field(default_factory=dict)
    """Projects with an action of their own; it takes precedence over that of the pool."""


class Pool(Struct, frozen=True, kw_only=True):
    """A named partition of the cluster's agents that sessions select."""

    default_limit_ms: int | None = None
    """Planned duration of a session without a time limit. It shapes reservations and never stops a session. None = the
    session's estimate."""
    cpu_per_gpu: int | None = None
    """CPUs of a session for each GPU, unless it requests CPUs itself; 0 or None = none. Fixed when
    the session is submitted; see decision 0062."""
    mem_bytes_per_gpu: int | None = None
    """Likewise memory."""
    idle: IdleAction | None = None
    """Action for sessions of the pool that do not use their GPUs; None = `IdleRules.action`."""


class Preemption(Struct, frozen=True, kw_only=True):
    """Preemption rules, for the order policy `priority` and for reclaiming lent quota."""

    preempt: PreemptScope = PreemptScope.PREEMPTIBLE
    run_ms_min: int = 600_000
    """A session is not preempted before it has run this long."""
    preemptions_max: int = 3
    """Upper bound on preemptions of one session."""
    grace_ms: int = 30_000
    """Time from the checkpoint signal to the stop, for sessions without their own."""
    restart_ms: int = 60_000
    """Time that a preempted session is expected to need until it works again. `las` and `srtf` count it as lost."""
    idle: IdleRules = field(default_factory=IdleRules)
    """Sessions that do not use their GPUs."""


class Retries(Struct, frozen=True, kw_only=True):
    """Retries after infrastructure failures: a failed launch or a lost agent."""

    tries_min: int = 3
    """Minimum number of retries, even if the session requested fewer."""
    wait_ms_first: int = 1_000
    wait_ms_max: int = 300_000
    jitter_pct: int = 25
    """Waits double from retry to retry; each is varied randomly by up to this percentage in either direction."""


class PolicyDocument(Struct, frozen=True, kw_only=True):
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
    prices: Prices = field(default_factory=Prices)

    def idle_action(self, *, pool: PoolId, project: ProjectId) -> IdleAction:
        """What happens to idle sessions: the project's action, else the pool's, else that of all."""
        rules, known = self.preemption.idle, self.pools.get(pool)
        of_pool = rules.action if known is None or known.idle is None else known.idle
        return IdleAction(rules.projects.get(project, of_pool))


def idle_action(word: str, path: str) -> IdleAction:
    """The action of a word.

    Raises:
        InvalidRequest: it is unknown.
    """
    try:
        return IdleAction(word)
    except ValueError:
        valid = ", ".join(IdleAction)
        raise InvalidRequest(f"{path}: {word[:64]!r} is unknown; use one of {valid}", field=path) from None


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
