"""The policy of a pass: what `decide` is free to do, as one value that is part of its input."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aliquot.core.allocation.options import AllocationOptions, NumaPolicy, Strategy
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import DAY_MS, Backfill, Charges, PolicyDocument, Pool, Preemption, Victims, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How sessions are ordered and placed. See `PolicyDocument` for what each part means; without one, a policy is
    first come, first served, and nobody passes the head of the queue."""

    version: int = 1
    order: str = "fcfs"
    """Name of an order policy, see `ordering`."""
    weights: Weights = field(default_factory=Weights)
    half_life_ms: int = 7 * DAY_MS
    charges: Charges = field(default_factory=Charges)
    backfill: Backfill = Backfill.NONE
    backfill_depth: int = 100
    pools: Mapping[PoolId, Pool] = field(default_factory=dict)
    """A pool that is missing has no default limit."""
    preemption: Preemption = field(default_factory=lambda: Preemption(victims=Victims.NOBODY))
    placement: str = "least_waste"
    """Name of a placement strategy, see `placement.strategies`."""
    allocation: AllocationOptions = field(default_factory=AllocationOptions)
    """How devices are chosen inside an agent."""

    def default_limit_ms(self, pool: PoolId) -> int | None:
        """How long a session of this pool without a time limit is reckoned to run; None = by its estimate."""
        known = self.pools.get(pool)
        return None if known is None else known.default_limit_ms

    @classmethod
    def of(cls, document: PolicyDocument) -> "Policy":
        """The policy that a document asks for.

        Raises:
            ValueError: `allocation` or `numa` is no known word; a document that was checked has none such.
        """
        return cls(
            version=document.version,
            order=document.order,
            weights=document.weights,
            half_life_ms=document.half_life_ms,
            charges=document.charges,
            backfill=document.backfill,
            backfill_depth=document.backfill_depth,
            pools=document.pools,
            preemption=document.preemption,
            placement=document.placement,
            allocation=AllocationOptions(
                strategy=Strategy(document.allocation),
                allow_fragmentation=document.allow_fragmentation,
                numa=NumaPolicy(document.numa),
            ),
        )
