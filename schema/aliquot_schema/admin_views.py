"""Read models of administration: the policy, quotas and use. Times are aware UTC, durations seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.policies import Backfill, Victims
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.sessions import Priority
from aliquot_schema.views import AgentView, SlotAmountView

PolicyChanges = Mapping[str, object]
"""By the names of `PolicyDocument`, nested as it is, in its units; what is missing stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsView:
    """See `policies.Weights`."""

    age: int
    age_unit: float
    fair: int
    short: int
    short_half: float
    priority: int
    level: float
    sjf_age_pct: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChargeView:
    """What a whole device of a model costs."""

    model: str
    milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargesView:
    """See `policies.Charges`."""

    accelerators: tuple[ModelChargeView, ...]
    cpu_milli: int
    mem_gib_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A part of the cluster."""

    name: str
    default_limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """See `policies.Preemption`."""

    victims: Victims
    run_min: float
    preemptions_max: int
    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriesView:
    """See `policies.Retries`."""

    tries_min: int
    wait_first: float
    wait_max: float
    jitter_pct: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """The policy document."""

    version: int
    order: str
    backfill: Backfill
    backfill_depth: int
    placement: str
    allocation: str
    allow_fragmentation: bool
    numa: str
    weights: WeightsView
    half_life: float
    charges: ChargesView
    pools: tuple[PoolView, ...]
    preemption: PreemptionView
    retries: RetriesView
    user_priority_max: Priority
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaView:
    """A quota."""

    scope: QuotaScope
    name: str
    version: int
    max_slots: tuple[SlotAmountView, ...]
    own_slots: tuple[SlotAmountView, ...]
    max_queued: int | None
    gpu_hours_per_month: int | None
    weight: int | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """What one user has used within one project. Hours are of a whole device, weighted by the policy's charges."""

    project: str
    user: str
    gpu_hours: float
    gpu_hours_month: float
    gpu_hours_decayed: float
    share: float
    """Of all decayed use, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuota:
    """A quota as it came in: nothing is validated yet, amounts are text."""

    scope: QuotaScope
    name: str = ""
    max_slots: Sequence[tuple[str, str]] = ()
    own_slots: Sequence[tuple[str, str]] = ()
    max_queued: int | None = None
    gpu_hours_per_month: int | None = None
    weight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """What a mutation did to the policy."""

    policy: PolicyView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChanged:
    """What a mutation did to a quota."""

    quota: QuotaView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChanged:
    """What a mutation did to an agent."""

    agent: AgentView
    revision: int
