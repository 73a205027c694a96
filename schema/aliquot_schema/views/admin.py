"""Read models of the policy, quotas, usage, pools and projects. Times are aware UTC, durations seconds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from aliquot_schema.policies import Backfill, IdleAction, PreemptScope, Victims
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.sessions import Priority
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.billing import PricesView
from aliquot_schema.views.server import SlotCapacityView
from aliquot_schema.views.sessions import SlotAmountView

PolicyChanges = Mapping[str, object]
"""Changed fields, named, nested and in the units of `PolicyDocument`; missing ones are unchanged."""


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
    wait_bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChargeView:
    """Charge for a whole device of a model."""

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
    """A pool in the policy."""

    name: str
    default_limit: float | None
    cpu_per_gpu: int | None
    mem_per_gpu: str | None
    idle: IdleAction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectIdleView:
    """What happens to idle sessions of a project."""

    project: str
    action: IdleAction


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRulesView:
    """See `policies.IdleRules`."""

    action: IdleAction
    tell: float
    again: float
    act: float
    keep: float
    projects: tuple[ProjectIdleView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionView:
    """See `policies.Preemption`."""

    preempt: PreemptScope
    victims: Victims
    """Deprecated: `preempt` in its old words."""
    run_min: float
    preemptions_max: int
    grace: float
    restart: float
    idle: IdleRulesView


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
    prices: PricesView
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
    budget: float | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUseView:
    """What a user, a project or the cluster holds, queues and has used, as quotas count it."""

    scope: QuotaScope
    name: str
    held: tuple[SlotAmountView, ...]
    """Devices of one kind count together, as shares."""
    waiting: int
    """Waiting tasks."""
    gpu_hours_month: float
    """In this calendar month, UTC."""
    cost_month: float
    """Likewise, in units of the currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """Usage of one user in one project. Hours of a whole device, weighted by the policy's charges."""

    project: str
    user: str
    gpu_hours: float
    gpu_hours_month: float
    gpu_hours_decayed: float
    share: float
    """Share of all decayed usage, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuota:
    """A quota to set, not validated; amounts are text."""

    scope: QuotaScope
    name: str = ""
    max_slots: Sequence[tuple[str, str]] = ()
    own_slots: Sequence[tuple[str, str]] = ()
    max_queued: int | None = None
    gpu_hours_per_month: int | None = None
    weight: int | None = None
    budget: float | None = None
    """In units of the currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """Result of a mutation of the policy."""

    policy: PolicyView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChanged:
    """Result of a mutation of a quota."""

    quota: QuotaView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectDeleted:
    """Result of the deletion of a project."""

    name: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChanged:
    """Result of a mutation of an agent."""

    agent: AgentView
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGpusView:
    """The accelerators of a pool, counted as in `GpusView`."""

    count: int
    """All, including unhealthy ones."""
    models: str
    """As in `NodeView.gpu_type`."""
    total: float
    available: float
    allocated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPoolView:
    """A pool with its agents, sessions and capacity."""

    name: str
    agents: tuple[str, ...]
    """In natural order."""
    nodes: tuple[str, ...]
    schedulable: bool
    total_queued: int
    running: int
    order_bound: str
    look: Callable[[], PoolGpusView]
    """Counts its accelerators; called when one of the GPU fields is requested, cached by the caller."""
    weigh: Callable[[], tuple[SlotCapacityView, ...]]
    """Sums up its devices; called when `capacity` is requested, cached by the caller."""

    @property
    def gpu_count(self) -> int:
        """See `PoolGpusView`; likewise the next four."""
        return self.look().count

    @property
    def gpu_type(self) -> str:
        return self.look().models

    @property
    def total_gpus(self) -> float:
        return self.look().total

    @property
    def available_gpus(self) -> float:
        return self.look().available

    @property
    def allocated_gpus(self) -> float:
        return self.look().allocated

    @property
    def capacity(self) -> tuple[SlotCapacityView, ...]:
        """By slot, in order of slot names."""
        return self.weigh()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectView:
    """A project with its sessions, usage and quota."""

    name: str
    users: tuple[str, ...]
    """Users with past leases or current sessions of the project, by name."""
    total_queued: int
    running: int
    allocated_gpus: float
    usage: tuple[UsageView, ...]
    """Per user with any usage."""
    gpu_hours: float
    gpu_hours_month: float
    share: float
    quota: QuotaView | None
