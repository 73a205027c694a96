"""Policy.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.billing import Prices
from aliquot.client.generated.enums import Backfill, IdleAction, PreemptScope, QuotaScope, Victims
from aliquot.client.generated.scalars import SlotAmount


class ModelCharge(Struct, frozen=True, kw_only=True):
    """Charge for a whole device of a model."""

    model: str
    """Name of the model."""
    milli: int
    """Charge in milli of a device."""


class Charges(Struct, frozen=True, kw_only=True):
    """Charges for held resources, in milli of a device."""

    accelerators: tuple[ModelCharge, ...]
    """Per whole device, by model; 1000 for other models."""
    cpu_milli: int
    """Per core."""
    mem_gib_milli: int
    """Per GiB of memory."""


class ProjectIdle(Struct, frozen=True, kw_only=True):
    """What happens to sessions of a project that do not use their GPUs."""

    project: str
    """The project."""
    action: IdleAction
    """What happens; takes precedence over the pool's action."""


class IdleRules(Struct, frozen=True, kw_only=True):
    """Steps before a session that does not use its GPUs loses them."""

    action: IdleAction
    """What happens, unless the pool or the project says otherwise."""
    tell: float
    """Idle seconds after which the owner is told."""
    again: float
    """Further idle seconds after which the owner is told again."""
    act: float
    """Further idle seconds after which the session may lose its GPUs."""
    keep: float
    """Seconds for which `keep_session` stops the steps."""
    projects: tuple[ProjectIdle, ...]
    """Projects with an action of their own."""


class Weights(Struct, frozen=True, kw_only=True):
    """Weights of the order policies; only their ratios matter."""

    age: int
    """fair_share, relative_age: weight per unit of age waited, which is an hour and the pool's backlog."""
    age_unit: float
    """Stored, without effect."""
    fair: int
    """fair_share: weight for an owner and a project without usage."""
    short: int
    """fair_share, relative_age: weight for a session of zero length."""
    short_half: float
    """fair_share, relative_age: length of a session that gets half of `short`, in seconds."""
    priority: int
    """fair_share, relative_age: weight per priority level above the lowest."""
    level: float
    """priority: waiting time worth one priority level, in seconds."""
    sjf_age_pct: int
    """sjf: percentage of its wait subtracted from a session's estimate."""
    wait_bound: float
    """
    Every order: wait within which a session is to start, in seconds. A session that would wait longer is promoted to
    the front of the queue. 0 = none.
    """


class Pool(Struct, frozen=True, kw_only=True):
    """A named partition of the cluster's agents that sessions select."""

    name: str
    """Name of the pool."""
    default_limit: float | None
    """Planned duration of sessions without a time limit, in seconds. Used for reservations; never stops a session."""
    cpu_per_gpu: int | None
    """CPUs per GPU of sessions that request GPUs but no CPUs; null = none."""
    mem_per_gpu: str | None
    """Memory per GPU of sessions that request GPUs but no memory; null = none."""
    idle: IdleAction | None
    """What happens to its sessions that do not use their GPUs; null = as `preemption.idle.action` says."""


class PreemptionRules(Struct, frozen=True, kw_only=True):
    """Preemption rules."""

    preempt: PreemptScope
    """Which sessions may be preempted."""
    victims: Victims
    """`preempt` in its old words."""
    run_min: float
    """Minimum run time before a preemption, in seconds."""
    preemptions_max: int
    """Maximum number of preemptions of one session."""
    grace: float
    """Seconds from the checkpoint signal to the stop, for sessions without their own grace period."""
    restart: float
    """las, srtf: time that a preempted session is expected to need until it works again, in seconds."""
    idle: IdleRules
    """Sessions that do not use their GPUs."""


class Retries(Struct, frozen=True, kw_only=True):
    """Retries after infrastructure failures, like a failed launch or a lost agent."""

    tries_min: int
    """Minimum number of retries, even if the session requested fewer."""
    wait_first: float
    """Wait before the first retry, in seconds; doubled for each further one."""
    wait_max: float
    """Longest wait, in seconds."""
    jitter_pct: int
    """Percentage by which each wait is varied randomly in either direction."""


class Policy(Struct, frozen=True, kw_only=True):
    """The scheduling policy."""

    version: int
    """Incremented by every change; 0 = never changed."""
    order: str
    """Order policy: fair_share, relative_age, priority, fcfs, sjf, gang, las or srtf."""
    backfill: Backfill
    """Which sessions may overtake the head of the queue."""
    backfill_depth: int
    """conservative: maximum number of sessions with a reservation."""
    placement: str
    """Placement strategy."""
    allocation: str
    """How an amount is split over devices: evenly or fill."""
    allow_fragmentation: bool
    """Whether shares that fit on one empty device may be split over several."""
    numa: str
    """Choice of devices by NUMA node: prefer (one node) or interleave."""
    weights: Weights
    """Weights of the order policies."""
    half_life: float
    """Half-life of usage in fair share, in seconds."""
    charges: Charges
    """Charges for held resources."""
    pools: tuple[Pool, ...]
    """Pools of the cluster."""
    preemption: PreemptionRules
    """Preemption rules."""
    retries: Retries
    """Retries after infrastructure failures."""
    prices: Prices
    """Prices of accelerators."""
    user_priority_max: str
    """Highest priority users may request."""
    changed_at: datetime | None
    """When it was last changed."""


class Quota(Struct, frozen=True, kw_only=True):
    """Limits of a user, a project or the cluster. Missing limits do not apply."""

    scope: QuotaScope
    """What it applies to."""
    name: str
    """The user, the project or the id of the API key; empty for the cluster."""
    version: int
    """Incremented by every change."""
    max_slots: tuple[SlotAmount, ...]
    """Maximum held at one time; 0 = none."""
    own_slots: tuple[SlotAmount, ...]
    """Guaranteed amounts; idle parts are lent to others and reclaimed when needed."""
    max_queued: int | None
    """Maximum number of waiting tasks."""
    gpu_hours_per_month: int | None
    """Maximum GPU-hours per calendar month, UTC."""
    weight: int | None
    """Fair-share weight among its siblings."""
    budget: float | None
    """Maximum price of a calendar month, UTC, by the policy's prices."""
    changed_at: datetime
    """When it was last changed."""


class QuotaUse(Struct, frozen=True, kw_only=True):
    """What a user, a project or the cluster holds, queues and has used, as quotas count it."""

    scope: QuotaScope
    """What it is about."""
    name: str
    """The user, the project or the id of the API key; empty for the cluster."""
    held: tuple[SlotAmount, ...]
    """Amounts held; devices of one kind count together, as shares: 1.50 `cuda.shares`."""
    waiting: int
    """Waiting tasks."""
    gpu_hours_month: float
    """GPU-hours in this calendar month, UTC."""
    cost_month: float
    """Price of this calendar month so far, with what is held now; 0 without prices."""


class Usage(Struct, frozen=True, kw_only=True):
    """Usage of a user in a project. Hours of a whole device, weighted by the policy's `charges`."""

    project: str
    """The project."""
    user: str
    """The user."""
    gpu_hours: float
    """Total."""
    gpu_hours_month: float
    """Usage in this calendar month, UTC."""
    gpu_hours_decayed: float
    """Decayed usage, which counts in fair share."""
    share: float
    """Share of all decayed usage, 0 to 1."""
