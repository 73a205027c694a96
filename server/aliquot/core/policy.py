"""The policy of a pass: what `decide` is free to do, as one value that is part of its input."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aliquot.core.allocation.options import AllocationOptions

DAY_MS: Final = 86_400_000


class Backfill(StrEnum):
    """Who may start before the head of the queue while the head does not fit."""

    NONE = "none"
    """Nobody."""
    EASY = "easy"
    """Whoever does not delay the head, which holds a reservation. Source: Lifka, The ANL/IBM SP scheduling system."""


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
class Policy:
    """How sessions are ordered and placed."""

    version: int = 1
    order: str = "fcfs"
    """Name of an order policy, see `ordering`."""
    weights: Weights = field(default_factory=Weights)
    backfill: Backfill = Backfill.NONE
    default_limit_ms: int | None = None
    """How long a session whose owner set no limit is reckoned to hold its devices; None = by its estimate."""
    placement: str = "least_waste"
    """Name of a placement strategy, see `placement.strategies`."""
    allocation: AllocationOptions = field(default_factory=AllocationOptions)
    """How devices are chosen inside an agent."""
