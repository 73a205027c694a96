"""The policy document: everything that people may change about who is next and where it goes. One, versioned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aliquot_schema.ids import PolicyId, PoolId
from aliquot_schema.sessions import DEFAULT_POOL, Priority

DAY_MS: Final = 86_400_000
POLICY_ID: Final = PolicyId("policy")
"""The one document's id."""


class Backfill(StrEnum):
    """Who may start before the head of the queue while the head does not fit."""

    NONE = "none"
    """Nobody."""
    EASY = "easy"
    """Whoever does not delay the head, which holds a reservation. Source: Lifka, The ANL/IBM SP scheduling system."""
    CONSERVATIVE = "conservative"
    """Whoever delays none of those before it, of which each holds a reservation."""


class Victims(StrEnum):
    """Who may be asked to make room."""

    NOBODY = "nobody"
    """Nothing is preempted, and nobody borrows quota."""
    WILLING = "willing"
    """Sessions that were submitted as preemptible; nobody else whose user or project owns something may borrow beyond
    it. What others own is called back from those who own nothing whether they are willing or not."""
    ANY = "any"
    """Every session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each thing counts in an order policy. Whole numbers; only their ratios matter."""

    age: int = 1
    """`fair_share`: for every `age_unit_ms` that a session has waited; without an upper limit."""
    age_unit_ms: int = 7 * DAY_MS
    fair: int = 1
    """`fair_share`: for an owner and a project that have used nothing; half of it at their exact share."""
    short: int = 2
    """`fair_share`: for a session that is over at once; half of it at `short_half_ms`."""
    short_half_ms: int = 4 * 3_600_000
    priority: int = 1
    """`fair_share`: for every level of priority above the lowest."""
    level_ms: int = DAY_MS
    """`priority`: the wait that makes up for one level. The lowest overtakes every later session after three of it."""
    sjf_age_pct: int = 10
    """`sjf`: the part of its wait that is taken off a session's estimate. Nobody who comes later than the estimate
    divided by this part overtakes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What holding things costs in fair share and GPU-hours, in milli of a device."""

    accelerator_milli: Mapping[str, int] = field(default_factory=dict)
    """Per whole device, by model; a model that is missing costs 1000."""
    cpu_milli: int = 5
    """Per core, so that those who use CPUs alone are served fairly among themselves, too."""
    mem_gib_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A part of the cluster that sessions choose by name."""

    default_limit_ms: int | None = None
    """How long a session without a time limit is reckoned to hold its devices; soft: it guards the head of the queue,
    and never kills. None = by its estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """How sessions are asked to make room, under the order `priority` and for lent quota that is called back."""

    victims: Victims = Victims.WILLING
    run_ms_min: int = 600_000
    """A session is left alone until it has run for so long."""
    preemptions_max: int = 3
    """So often a session is preempted at most."""
    grace_ms: int = 30_000
    """From the checkpoint signal to the stop, for sessions that name none of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How sessions are tried again after failures that are ours: a launch that failed, an agent that was lost."""

    tries_min: int = 3
    """Tried again so often even when the session asked for fewer retries."""
    wait_ms_first: int = 1_000
    wait_ms_max: int = 300_000
    jitter_pct: int = 25
    """Each wait, doubled from try to try, is moved by up to so much either way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """What a pass decides by. Every change is an event, and takes effect in the next pass."""

    id: PolicyId = POLICY_ID
    version: int = 0
    order: str = "fair_share"
    """Name of an order policy."""
    backfill: Backfill = Backfill.EASY
    backfill_depth: int = 100
    """`conservative`: so many sessions hold a reservation at most."""
    placement: str = "least_waste"
    """Name of a placement strategy."""
    allocation: str = "evenly"
    """How an amount is spread over devices: `evenly` or `fill`."""
    allow_fragmentation: bool = False
    """Whether shares that one whole device could hold may be split when none has room for them."""
    numa: str = "prefer"
    """`prefer` devices of one NUMA node, or `interleave`."""
    weights: Weights = field(default_factory=Weights)
    half_life_ms: int = 7 * DAY_MS
    """After this time a use counts half in fair share."""
    charges: Charges = field(default_factory=Charges)
    pools: Mapping[PoolId, Pool] = field(default_factory=lambda: {DEFAULT_POOL: Pool()})
    preemption: Preemption = field(default_factory=Preemption)
    retries: Retries = field(default_factory=Retries)
    user_priority_max: Priority = Priority.NORMAL
    """The highest level that a user may ask for; operators may ask for any."""
    changed_us: int = 0
