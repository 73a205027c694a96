"""Policy of a pass: the policy document in the form that `decide` reads."""

from collections.abc import Mapping

from msgspec import Struct, field

from aliquot.core.allocation.options import AllocationOptions, NumaPolicy, ShareStrategy
from aliquot_schema.billing import Prices
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import DAY_MS, Backfill, Charges, PolicyDocument, Pool, Preemption, PreemptScope, Weights


class Policy(Struct, frozen=True, kw_only=True):
    """How sessions are ordered and placed; see `PolicyDocument` for the fields. The default is first come, first served
    without backfill."""

    version: int = 1
    order: str = "fcfs"
    """Name of an order policy, see `scheduler.ordering`."""
    weights: Weights = field(default_factory=Weights)
    half_life_ms: int = 7 * DAY_MS
    charges: Charges = field(default_factory=Charges)
    backfill: Backfill = Backfill.NONE
    backfill_depth: int = 100
    pools: Mapping[PoolId, Pool] = field(default_factory=dict)
    """A missing pool has no default limit."""
    preemption: Preemption = field(default_factory=lambda: Preemption(preempt=PreemptScope.NONE))
    placement: str = "least_waste"
    """Name of a placement strategy, see `placement.strategies`."""
    allocation: AllocationOptions = field(default_factory=AllocationOptions)
    """How devices are chosen on an agent."""
    prices: Prices = field(default_factory=Prices)

    @classmethod
    def of(cls, document: PolicyDocument) -> "Policy":
        """The policy of a document.

        Raises:
            ValueError: unknown `allocation` or `numa`; cannot happen with a checked document.
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
                strategy=ShareStrategy(document.allocation),
                allow_fragmentation=document.allow_fragmentation,
                numa=NumaPolicy(document.numa),
            ),
            prices=document.prices,
        )
