"""The policy as people see it: names without units, durations in seconds."""

from aliquot.service.projection_terms import moment
from aliquot_schema.admin_views import (
    ChargesView,
    ModelChargeView,
    PolicyView,
    PoolView,
    PreemptionView,
    RetriesView,
    WeightsView,
)
from aliquot_schema.natural_order import natural_key
from aliquot_schema.policies import Charges, PolicyDocument, Weights


def policy_view(policy: PolicyDocument) -> PolicyView:
    """The document."""
    preemption, retries = policy.preemption, policy.retries
    return PolicyView(
        version=policy.version,
        order=policy.order,
        backfill=policy.backfill,
        backfill_depth=policy.backfill_depth,
        placement=policy.placement,
        allocation=policy.allocation,
        allow_fragmentation=policy.allow_fragmentation,
        numa=policy.numa,
        weights=_weights(policy.weights),
        half_life=policy.half_life_ms / 1000,
        charges=_charges(policy.charges),
        pools=tuple(
            PoolView(name=name, default_limit=_seconds(policy.pools[name].default_limit_ms))
            for name in sorted(policy.pools, key=natural_key)
        ),
        preemption=PreemptionView(
            victims=preemption.victims,
            run_min=preemption.run_ms_min / 1000,
            preemptions_max=preemption.preemptions_max,
            grace=preemption.grace_ms / 1000,
        ),
        retries=RetriesView(
            tries_min=retries.tries_min,
            wait_first=retries.wait_ms_first / 1000,
            wait_max=retries.wait_ms_max / 1000,
            jitter_pct=retries.jitter_pct,
        ),
        user_priority_max=policy.user_priority_max,
        changed_at=moment(policy.changed_us) if policy.changed_us else None,
    )


def _weights(weights: Weights) -> WeightsView:
    return WeightsView(
        age=weights.age,
        age_unit=weights.age_unit_ms / 1000,
        fair=weights.fair,
        short=weights.short,
        short_half=weights.short_half_ms / 1000,
        priority=weights.priority,
        level=weights.level_ms / 1000,
        sjf_age_pct=weights.sjf_age_pct,
    )


def _charges(charges: Charges) -> ChargesView:
    return ChargesView(
        accelerators=tuple(
            ModelChargeView(model=model, milli=milli) for model, milli in sorted(charges.accelerator_milli.items())
        ),
        cpu_milli=charges.cpu_milli,
        mem_gib_milli=charges.mem_gib_milli,
    )


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000
