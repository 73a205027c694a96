"""Read models of the policy, quotas, usage, pools and projects. Times are aware UTC, durations seconds."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from aliquot_schema.policies import Backfill, IdleAction, PreemptScope, Victims
from aliquot_schema.quotas import QuotaScope
from aliquot_schema.sessions import Priority
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.billing import PricesView
from aliquot_schema.views.server import SlotCapacityView
from aliquot_schema.views.sessions import SlotAmountView

PolicyChanges = Mapping[str, object]
"""Changed fields, named, nested and in the units of `PolicyDocument`; missing ones are unchanged."""


class WeightsView(Struct, frozen=True, kw_only=True):
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


class ModelChargeView(Struct, frozen=True, kw_only=True):
    """Charge for a whole device of a model."""

    model: str
    milli: int


class ChargesView(Struct, frozen=True, kw_only=True):
    """See `policies.Charges`."""

    accelerators: tuple[ModelChargeView, ...]
    cpu_milli: int
    mem_gib_milli: int


class PoolView(Struct, frozen=True, kw_only=True):
    """A pool in the policy."""

    name: str
    default_limit: float | None
    cpu_per_gpu: int | None
    mem_per_gpu: str | None
    idle: IdleAction | None


class ProjectIdleView(Struct, frozen=True, kw_only=True):
    """What happens to idle sessions of a project."""

    project: str
    action: IdleAction


class IdleRulesView(Struct, frozen=True, kw_only=True):
    """See `policies.IdleRules`."""

    action: IdleAction
    tell: float
    again: float
    act: float
    keep: float
    projects: tuple[ProjectIdleView, ...]


class PreemptionView(Struct, frozen=True, kw_only=True):
    """See `policies.Preemption`."""

    preempt: PreemptScope
    victims: Victims
    """Deprecated: `preempt` in its old words."""
    run_min: float
    preemptions_max: int
    grace: float
    restart: float
    idle: IdleRulesView


class RetriesView(Struct, frozen=True, kw_only=True):
    """See `policies.Retries`."""

    tries_min: int
    wait_first: float
    wait_max: float
    jitter_pct: int


class PolicyView(Struct, frozen=True, kw_only=True):
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


class QuotaView(Struct, frozen=True, kw_only=True):
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


class QuotaUseView(Struct, frozen=True, kw_only=True):
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


class UsageView(Struct, frozen=True, kw_only=True):
    """Usage of one user in one project. Hours of a whole device, weighted by the policy's charges."""

    project: str
    user: str
    gpu_hours: float
    gpu_hours_month: float
    gpu_hours_decayed: float
    share: float
    """Share of all decayed usage, 0 to 1."""


class NewQuota(Struct, frozen=True, kw_only=True):
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


class PolicyChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of the policy."""

    policy: PolicyView
    revision: int


class QuotaChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of a quota."""

    quota: QuotaView
    revision: int


class ProjectDeleted(Struct, frozen=True, kw_only=True):
    """Result of the deletion of a project."""

    name: str
    revision: int


class AgentChanged(Struct, frozen=True, kw_only=True):
    """Result of a mutation of an agent."""

    agent: AgentView
    revision: int


class PoolGpusView(Struct, frozen=True, kw_only=True):
    """The accelerators of a pool, counted as in `GpusView`."""

    count: int
    """All, including unhealthy ones."""
    models: str
    """As in `NodeView.gpu_type`."""
    total: float
    available: float
    allocated: float


class ClusterPoolView(Struct, frozen=True, kw_only=True):
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


class ProjectView(Struct, frozen=True, kw_only=True):
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
