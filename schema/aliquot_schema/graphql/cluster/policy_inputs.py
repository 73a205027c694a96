"""GraphQL inputs of the policy, quotas and agents. Null fields of the policy are unchanged; durations are seconds."""

from typing import Any

import strawberry

from aliquot_schema.errors import InvalidAmount, InvalidRequest
from aliquot_schema.graphql.cluster.billing import PricesInput
from aliquot_schema.graphql.enums import QuotaScope
from aliquot_schema.graphql.fields import optional
from aliquot_schema.graphql.inputs import NameValueInput, SlotAmountInput
from aliquot_schema.graphql.scalars import AnyPriority
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import AGE_UNIT_DEPRECATION, WAS_VICTIMS, Pool, idle_action, preempt_word
from aliquot_schema.resources.units import parse_size
from aliquot_schema.sessions import DURATION_S_MAX
from aliquot_schema.views.admin import NewQuota

_VERSION = "Expected current version; fails with VersionConflict otherwise."


@strawberry.input(description="Changes of `Weights`. Null fields are unchanged.")
class WeightsInput:
    age: int | None = optional("1 to 1000. Not 0, because then sessions could starve.")
    age_unit: float | None = strawberry.field(
        default=None, description="Stored, without effect.", deprecation_reason=AGE_UNIT_DEPRECATION
    )
    fair: int | None = optional("0 to 1000.")
    short: int | None = optional("0 to 1000.")
    short_half: float | None = optional("Length of a session that gets half of `short`, in seconds.")
    priority: int | None = optional("0 to 1000.")
    level: float | None = optional("Waiting time worth one priority level, in seconds.")
    sjf_age_pct: int | None = optional("1 to 100.")
    wait_bound: float | None = optional("Wait within which a session is to start, in seconds; 0 = none.")

    def to_changes(self) -> dict[str, Any]:
        """Changed fields, named as in `PolicyDocument`."""
        return _without_none(
            age=self.age,
            age_unit_ms=_ms(self.age_unit, "weights.age_unit"),
            fair=self.fair,
            short=self.short,
            short_half_ms=_ms(self.short_half, "weights.short_half"),
            priority=self.priority,
            level_ms=_ms(self.level, "weights.level"),
            sjf_age_pct=self.sjf_age_pct,
            wait_bound_ms=_ms(self.wait_bound, "weights.wait_bound"),
        )


@strawberry.input(description="Charge for a whole device of a model.")
class ModelChargeInput:
    model: str = strawberry.field(description="Name of the model.")
    milli: int = strawberry.field(description="Charge in milli of a device.")


@strawberry.input(description="Changes of `Charges`. Null fields are unchanged.")
class ChargesInput:
    accelerators: list[ModelChargeInput] | None = optional(
        "Charges by model; replaces the list. 1000 for other models."
    )
    cpu_milli: int | None = optional("Charge per core.")
    mem_gib_milli: int | None = optional("Charge per GiB of memory.")

    def to_changes(self) -> dict[str, Any]:
        """Changed fields, named as in `PolicyDocument`."""
        models = self.accelerators
        return _without_none(
            accelerator_milli=None if models is None else {item.model: item.milli for item in models},
            cpu_milli=self.cpu_milli,
            mem_gib_milli=self.mem_gib_milli,
        )


@strawberry.input(description="A pool of the cluster.")
class PoolInput:
    name: str = strawberry.field(description="Name of the pool.")
    default_limit: float | None = optional("Planned duration of sessions without a time limit, in seconds.")
    cpu_per_gpu: int | None = optional("CPUs per GPU of sessions that request GPUs but no CPUs; 0 or null = none.")
    mem_per_gpu: str | None = optional(
        "Memory per GPU of sessions that request GPUs but no memory, like `64g`; `0` or null = none."
    )
    idle: str | None = optional(
        "What happens to its sessions that do not use their GPUs: off, observe, tell, preempt or end; null = as "
        "`preemption.idle.action` says."
    )


@strawberry.input(description="What happens to sessions of a project that do not use their GPUs.")
class ProjectIdleInput:
    project: str = strawberry.field(description="The project.")
    action: str = strawberry.field(description="off, observe, tell, preempt or end.")


@strawberry.input(description="Changes of `IdleRules`. Null fields are unchanged.")
class IdleRulesInput:
    action: str | None = optional("off, observe, tell, preempt or end.")
    tell: float | None = optional("Idle seconds after which the owner is told.")
    again: float | None = optional("Further idle seconds after which the owner is told again.")
    act: float | None = optional("Further idle seconds after which the session may lose its GPUs.")
    keep: float | None = optional("Seconds for which `keep_session` stops the steps.")
    projects: list[ProjectIdleInput] | None = optional("Projects with an action of their own; replaces the list.")

    def to_changes(self) -> dict[str, Any]:
        """Changed fields, named as in `PolicyDocument`."""
        path, listed = "preemption.idle", self.projects
        projects = None if listed is None else {item.project: idle_action(item.action, path) for item in listed}
        return _without_none(
            action=self.action,
            tell_ms=_ms(self.tell, f"{path}.tell"),
            again_ms=_ms(self.again, f"{path}.again"),
            act_ms=_ms(self.act, f"{path}.act"),
            keep_ms=_ms(self.keep, f"{path}.keep"),
            projects=projects,
        )


@strawberry.input(description="Changes of `PreemptionRules`. Null fields are unchanged.")
class PreemptionRulesInput:
    preempt: str | None = optional("none, preemptible or any.")
    victims: str | None = strawberry.field(
        default=None, description="The old name of `preempt`.", deprecation_reason=WAS_VICTIMS.reason
    )
    run_min: float | None = optional("Minimum run time before a preemption, in seconds.")
    preemptions_max: int | None = optional("Maximum number of preemptions of one session.")
    grace: float | None = optional("Seconds from the checkpoint signal to the stop.")
    restart: float | None = optional("Expected time until a preempted session works again, in seconds.")
    idle: IdleRulesInput | None = optional("Sessions that do not use their GPUs.")

    def to_changes(self) -> dict[str, Any]:
        """Changed fields, named as in `PolicyDocument`.

        Raises:
            InvalidRequest: `preempt` and `victims` contradict each other, or a duration is out of range.
        """
        return _without_none(
            preempt=preempt_word(self.preempt, self.victims),
            run_ms_min=_ms(self.run_min, "preemption.run_min"),
            preemptions_max=self.preemptions_max,
            grace_ms=_ms(self.grace, "preemption.grace"),
            restart_ms=_ms(self.restart, "preemption.restart"),
            idle=None if self.idle is None else self.idle.to_changes(),
        )


@strawberry.input(description="Changes of `Retries`. Null fields are unchanged.")
class RetriesInput:
    tries_min: int | None = optional("Minimum number of retries, even if the session requested fewer.")
    wait_first: float | None = optional("Wait before the first retry, in seconds.")
    wait_max: float | None = optional("Longest wait, in seconds.")
    jitter_pct: int | None = optional("Random variation of each wait in percent, 0 to 100.")

    def to_changes(self) -> dict[str, Any]:
        """Changed fields, named as in `PolicyDocument`."""
        return _without_none(
            tries_min=self.tries_min,
            wait_ms_first=_ms(self.wait_first, "retries.wait_first"),
            wait_ms_max=_ms(self.wait_max, "retries.wait_max"),
            jitter_pct=self.jitter_pct,
        )


@strawberry.input(description="Changes of the policy, applied all or none. Null fields are unchanged.")
class UpdatePolicyInput:
    order: str | None = optional("fair_share, relative_age, priority, fcfs, sjf, gang, las or srtf.")
    backfill: str | None = optional("none, easy or conservative.")
    backfill_depth: int | None = optional("conservative: maximum number of sessions with a reservation.")
    placement: str | None = optional("Name of a placement strategy.")
    allocation: str | None = optional("evenly or fill.")
    allow_fragmentation: bool | None = optional(
        "Whether shares that fit on one empty device may be split over several."
    )
    numa: str | None = optional("prefer or interleave.")
    weights: WeightsInput | None = optional("Weights of the order policies.")
    half_life: float | None = optional("Half-life of usage in fair share, in seconds.")
    charges: ChargesInput | None = optional("Charges for held resources.")
    pools: list[PoolInput] | None = optional("Pools; replaces the list. Pools in use cannot be removed.")
    preemption: PreemptionRulesInput | None = optional("Preemption rules.")
    retries: RetriesInput | None = optional("Retries after infrastructure failures.")
    prices: PricesInput | None = optional("Prices of accelerators.")
    user_priority_max: AnyPriority | None = optional("Highest priority users may request.")
    expected_version: int | None = optional(_VERSION)

    def to_changes(self) -> dict[str, Any]:
        """By the names of the document.

        Raises:
            InvalidRequest: a duration is out of range.
        """
        parts = {name: getattr(self, name) for name in ("weights", "charges", "preemption", "retries", "prices")}
        plain = ("order", "backfill", "backfill_depth", "placement", "allocation", "allow_fragmentation", "numa")
        return _without_none(
            **{name: getattr(self, name) for name in (*plain, "user_priority_max")},
            **{name: part.to_changes() for name, part in parts.items() if part is not None},
            half_life_ms=_ms(self.half_life, "half_life"),
            pools=None if self.pools is None else _pools(self.pools),
        )


@strawberry.input(description="A quota; replaces the existing one.")
class SetQuotaInput:
    scope: QuotaScope = strawberry.field(description="What it applies to.")
    name: str = strawberry.field(
        default="", description="The user, the project or the id of the API key; empty for the cluster."
    )
    max_slots: list[SlotAmountInput] | None = optional("Maximum held at one time; 0 = none.")
    own_slots: list[SlotAmountInput] | None = optional(
        "Guaranteed amounts; idle parts are lent to others and reclaimed when needed."
    )
    max_queued: int | None = optional("Maximum number of waiting tasks.")
    gpu_hours_per_month: int | None = optional("Maximum GPU-hours per calendar month, UTC.")
    weight: int | None = optional("Fair-share weight among its siblings.")
    budget: float | None = optional(
        "Maximum price of a calendar month, UTC, by the policy's prices; the only limit of an API key."
    )
    expected_version: int | None = optional(_VERSION + " 0 = no quota exists yet.")

    def to_request(self) -> NewQuota:
        """The input as a request."""
        return NewQuota(
            scope=self.scope,
            name=self.name,
            max_slots=tuple((item.slot, item.amount) for item in self.max_slots or ()),
            own_slots=tuple((item.slot, item.amount) for item in self.own_slots or ()),
            max_queued=self.max_queued,
            gpu_hours_per_month=self.gpu_hours_per_month,
            weight=self.weight,
            budget=self.budget,
        )


@strawberry.input(description="A quota to remove.")
class RemoveQuotaInput:
    scope: QuotaScope = strawberry.field(description="What it applies to.")
    name: str = strawberry.field(
        default="", description="The user, the project or the id of the API key; empty for the cluster."
    )
    expected_version: int | None = optional(_VERSION)


@strawberry.input(description="An agent to drain.")
class DrainAgentInput:
    id: strawberry.ID = strawberry.field(description="The agent.")
    note: str | None = optional("Reason, shown to all users.")
    evict: bool = strawberry.field(
        default=False, description="Whether to preempt the sessions running on it; they are queued again."
    )


@strawberry.input(description="Whether an agent accepts new work.")
class SetAgentSchedulableInput:
    id: strawberry.ID = strawberry.field(description="The agent.")
    schedulable: bool = strawberry.field(description="Whether it accepts new work.")
    note: str | None = optional("Reason, shown to all users.")


@strawberry.input(description="Labels of an agent; replaces the existing ones.")
class LabelAgentInput:
    id: strawberry.ID = strawberry.field(description="The agent.")
    labels: list[NameValueInput] = strawberry.field(description="The complete list of labels.")

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The input as a request."""
        return tuple((item.name, item.value) for item in self.labels)


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _pools(pools: list[PoolInput]) -> dict[PoolId, Pool]:
    found: dict[PoolId, Pool] = {}
    for item in pools:
        if item.name in found:
            raise InvalidRequest(f"pools: {item.name[:64]} is given twice", field="pools")
        path = f"pools[{item.name[:64]}]"
        found[PoolId(item.name)] = Pool(
            default_limit_ms=_ms(item.default_limit, path),
            cpu_per_gpu=item.cpu_per_gpu,
            mem_bytes_per_gpu=_bytes(item.mem_per_gpu, f"{path}.mem_per_gpu"),
            idle=None if item.idle is None else idle_action(item.idle, f"{path}.idle"),
        )
    return found


def _bytes(size: str | None, field: str) -> int | None:
    try:
        return None if size is None else parse_size(size)
    except InvalidAmount as error:
        raise InvalidRequest(f"{field}: {error.message}", field=field) from None


def _ms(seconds: float | None, field: str) -> int | None:
    if seconds is None:
        return None
    if not 0 <= seconds <= DURATION_S_MAX:
        raise InvalidRequest(f"{field}: {seconds} s is not within 0 and {DURATION_S_MAX} s", field=field)
    return round(seconds * 1000)
