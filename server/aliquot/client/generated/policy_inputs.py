"""Policy inputs.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.billing import PricesInput
from aliquot.client.generated.enums import QuotaScope
from aliquot.client.generated.inputs import NameValueInput, SlotAmountInput


class ModelChargeInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Charge for a whole device of a model."""

    model: str
    """Name of the model."""
    milli: int
    """Charge in milli of a device."""


class ChargesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of `Charges`. Null fields are unchanged."""

    accelerators: Sequence[ModelChargeInput] | None = None
    """Charges by model; replaces the list. 1000 for other models."""
    cpu_milli: int | None = None
    """Charge per core."""
    mem_gib_milli: int | None = None
    """Charge per GiB of memory."""


class DrainAgentInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent to drain."""

    id: str
    """The agent."""
    note: str | None = None
    """Reason, shown to all users."""
    evict: bool = False
    """Whether to preempt the sessions running on it; they are queued again."""


class ProjectIdleInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What happens to sessions of a project that do not use their GPUs."""

    project: str
    """The project."""
    action: str
    """off, observe, tell, preempt or end."""


class IdleRulesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of `IdleRules`. Null fields are unchanged."""

    action: str | None = None
    """off, observe, tell, preempt or end."""
    tell: float | None = None
    """Idle seconds after which the owner is told."""
    again: float | None = None
    """Further idle seconds after which the owner is told again."""
    act: float | None = None
    """Further idle seconds after which the session may lose its GPUs."""
    keep: float | None = None
    """Seconds for which `keep_session` stops the steps."""
    projects: Sequence[ProjectIdleInput] | None = None
    """Projects with an action of their own; replaces the list."""


class LabelAgentInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Labels of an agent; replaces the existing ones."""

    id: str
    """The agent."""
    labels: Sequence[NameValueInput]
    """The complete list of labels."""


class PoolInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A pool of the cluster."""

    name: str
    """Name of the pool."""
    default_limit: float | None = None
    """Planned duration of sessions without a time limit, in seconds."""
    cpu_per_gpu: int | None = None
    """CPUs per GPU of sessions that request GPUs but no CPUs; 0 or null = none."""
    mem_per_gpu: str | None = None
    """Memory per GPU of sessions that request GPUs but no memory, like `64g`; `0` or null = none."""
    idle: str | None = None
    """
    What happens to its sessions that do not use their GPUs: off, observe, tell, preempt or end; null = as
    `preemption.idle.action` says.
    """


class PreemptionRulesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of `PreemptionRules`. Null fields are unchanged."""

    preempt: str | None = None
    """none, preemptible or any."""
    victims: str | None = None
    """The old name of `preempt`."""
    run_min: float | None = None
    """Minimum run time before a preemption, in seconds."""
    preemptions_max: int | None = None
    """Maximum number of preemptions of one session."""
    grace: float | None = None
    """Seconds from the checkpoint signal to the stop."""
    restart: float | None = None
    """Expected time until a preempted session works again, in seconds."""
    idle: IdleRulesInput | None = None
    """Sessions that do not use their GPUs."""


class RemoveQuotaInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A quota to remove."""

    scope: QuotaScope
    """What it applies to."""
    name: str = ""
    """The user, the project or the id of the API key; empty for the cluster."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""


class RetriesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of `Retries`. Null fields are unchanged."""

    tries_min: int | None = None
    """Minimum number of retries, even if the session requested fewer."""
    wait_first: float | None = None
    """Wait before the first retry, in seconds."""
    wait_max: float | None = None
    """Longest wait, in seconds."""
    jitter_pct: int | None = None
    """Random variation of each wait in percent, 0 to 100."""


class SetAgentSchedulableInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whether an agent accepts new work."""

    id: str
    """The agent."""
    schedulable: bool
    """Whether it accepts new work."""
    note: str | None = None
    """Reason, shown to all users."""


class SetQuotaInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A quota; replaces the existing one."""

    scope: QuotaScope
    """What it applies to."""
    name: str = ""
    """The user, the project or the id of the API key; empty for the cluster."""
    max_slots: Sequence[SlotAmountInput] | None = None
    """Maximum held at one time; 0 = none."""
    own_slots: Sequence[SlotAmountInput] | None = None
    """Guaranteed amounts; idle parts are lent to others and reclaimed when needed."""
    max_queued: int | None = None
    """Maximum number of waiting tasks."""
    gpu_hours_per_month: int | None = None
    """Maximum GPU-hours per calendar month, UTC."""
    weight: int | None = None
    """Fair-share weight among its siblings."""
    budget: float | None = None
    """Maximum price of a calendar month, UTC, by the policy's prices; the only limit of an API key."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise. 0 = no quota exists yet."""


class WeightsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of `Weights`. Null fields are unchanged."""

    age: int | None = None
    """1 to 1000. Not 0, because then sessions could starve."""
    age_unit: float | None = None
    """Stored, without effect."""
    fair: int | None = None
    """0 to 1000."""
    short: int | None = None
    """0 to 1000."""
    short_half: float | None = None
    """Length of a session that gets half of `short`, in seconds."""
    priority: int | None = None
    """0 to 1000."""
    level: float | None = None
    """Waiting time worth one priority level, in seconds."""
    sjf_age_pct: int | None = None
    """1 to 100."""
    wait_bound: float | None = None
    """Wait within which a session is to start, in seconds; 0 = none."""


class UpdatePolicyInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of the policy, applied all or none. Null fields are unchanged."""

    order: str | None = None
    """fair_share, relative_age, priority, fcfs, sjf, gang, las or srtf."""
    backfill: str | None = None
    """none, easy or conservative."""
    backfill_depth: int | None = None
    """conservative: maximum number of sessions with a reservation."""
    placement: str | None = None
    """Name of a placement strategy."""
    allocation: str | None = None
    """evenly or fill."""
    allow_fragmentation: bool | None = None
    """Whether shares that fit on one empty device may be split over several."""
    numa: str | None = None
    """prefer or interleave."""
    weights: WeightsInput | None = None
    """Weights of the order policies."""
    half_life: float | None = None
    """Half-life of usage in fair share, in seconds."""
    charges: ChargesInput | None = None
    """Charges for held resources."""
    pools: Sequence[PoolInput] | None = None
    """Pools; replaces the list. Pools in use cannot be removed."""
    preemption: PreemptionRulesInput | None = None
    """Preemption rules."""
    retries: RetriesInput | None = None
    """Retries after infrastructure failures."""
    prices: PricesInput | None = None
    """Prices of accelerators."""
    user_priority_max: str | None = None
    """Highest priority users may request."""
    expected_version: int | None = None
    """Expected current version; fails with VersionConflict otherwise."""
