"""Inputs of administration. A field of the policy that is left out, or null, stays as it is; durations are seconds."""

from typing import Any

import strawberry

from aliquot_schema.admin_views import NewQuota
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.graphql.descriptions import optional
from aliquot_schema.graphql.enums import QuotaScope
from aliquot_schema.graphql.inputs import NameValueInput, SlotAmountInput
from aliquot_schema.graphql.scalars import AnyPriority
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import Pool
from aliquot_schema.sessions import DURATION_S_MAX

_VERSION = "Refuse if it is not at this version."


@strawberry.input(description="See `Weights`.")
class WeightsInput:
    age: int | None = optional("1 to 1000: without it somebody could wait for ever.")
    age_unit: float | None = optional("Seconds.")
    fair: int | None = optional("0 to 1000.")
    short: int | None = optional("0 to 1000.")
    short_half: float | None = optional("Seconds.")
    priority: int | None = optional("0 to 1000.")
    level: float | None = optional("Seconds.")
    sjf_age_pct: int | None = optional("1 to 100.")

    def to_changes(self) -> dict[str, Any]:
        """By the names of the document."""
        return _given(
            age=self.age,
            age_unit_ms=_ms(self.age_unit, "weights.age_unit"),
            fair=self.fair,
            short=self.short,
            short_half_ms=_ms(self.short_half, "weights.short_half"),
            priority=self.priority,
            level_ms=_ms(self.level, "weights.level"),
            sjf_age_pct=self.sjf_age_pct,
        )


@strawberry.input(description="What a whole device of a model costs.")
class ModelChargeInput:
    model: str = strawberry.field(description="The model.")
    milli: int = strawberry.field(description="Milli of a device.")


@strawberry.input(description="See `Charges`.")
class ChargesInput:
    accelerators: list[ModelChargeInput] | None = optional("All of them: those left out cost 1000.")
    cpu_milli: int | None = optional("Per core.")
    mem_gib_milli: int | None = optional("Per GiB of memory.")

    def to_changes(self) -> dict[str, Any]:
        """By the names of the document."""
        models = self.accelerators
        return _given(
            accelerator_milli=None if models is None else {item.model: item.milli for item in models},
            cpu_milli=self.cpu_milli,
            mem_gib_milli=self.mem_gib_milli,
        )


@strawberry.input(description="A part of the cluster.")
class PoolInput:
    name: str = strawberry.field(description="Its name.")
    default_limit: float | None = optional("Seconds that a session without a limit is reckoned to run.")


@strawberry.input(description="See `PreemptionRules`.")
class PreemptionRulesInput:
    victims: str | None = optional("nobody, willing or any.")
    run_min: float | None = optional("Seconds.")
    preemptions_max: int | None = optional("So often at most.")
    grace: float | None = optional("Seconds.")

    def to_changes(self) -> dict[str, Any]:
        """By the names of the document."""
        return _given(
            victims=self.victims,
            run_ms_min=_ms(self.run_min, "preemption.run_min"),
            preemptions_max=self.preemptions_max,
            grace_ms=_ms(self.grace, "preemption.grace"),
        )


@strawberry.input(description="See `Retries`.")
class RetriesInput:
    tries_min: int | None = optional("So often even when the session asked for fewer.")
    wait_first: float | None = optional("Seconds.")
    wait_max: float | None = optional("Seconds.")
    jitter_pct: int | None = optional("0 to 100.")

    def to_changes(self) -> dict[str, Any]:
        """By the names of the document."""
        return _given(
            tries_min=self.tries_min,
            wait_ms_first=_ms(self.wait_first, "retries.wait_first"),
            wait_ms_max=_ms(self.wait_max, "retries.wait_max"),
            jitter_pct=self.jitter_pct,
        )


@strawberry.input(description="Changes of the policy: all of them together are taken, or none.")
class UpdatePolicyInput:
    order: str | None = optional("fair_share, priority, fcfs, sjf or gang.")
    backfill: str | None = optional("none, easy or conservative.")
    backfill_depth: int | None = optional("conservative: so many hold a reservation.")
    placement: str | None = optional("Name of a placement strategy.")
    allocation: str | None = optional("evenly or fill.")
    allow_fragmentation: bool | None = optional("Whether shares may be split that one device could hold.")
    numa: str | None = optional("prefer or interleave.")
    weights: WeightsInput | None = optional("How much each thing counts.")
    half_life: float | None = optional("Seconds.")
    charges: ChargesInput | None = optional("What holding things costs.")
    pools: list[PoolInput] | None = optional("All of them: those left out are removed, unless something is in them.")
    preemption: PreemptionRulesInput | None = optional("How sessions are asked to make room.")
    retries: RetriesInput | None = optional("How sessions are tried again.")
    user_priority_max: AnyPriority | None = optional("The highest level that a user may ask for.")
    expected_version: int | None = optional(_VERSION)

    def to_changes(self) -> dict[str, Any]:
        """By the names of the document.

        Raises:
            InvalidRequest: a duration is none.
        """
        parts = {name: getattr(self, name) for name in ("weights", "charges", "preemption", "retries")}
        plain = ("order", "backfill", "backfill_depth", "placement", "allocation", "allow_fragmentation", "numa")
        return _given(
            **{name: getattr(self, name) for name in (*plain, "user_priority_max")},
            **{name: part.to_changes() for name, part in parts.items() if part is not None},
            half_life_ms=_ms(self.half_life, "half_life"),
            pools=None if self.pools is None else _pools(self.pools),
        )


@strawberry.input(description="A quota, in place of the one there is.")
class SetQuotaInput:
    scope: QuotaScope = strawberry.field(description="Whom it is for.")
    name: str = strawberry.field(default="", description="The user or project; empty for the cluster.")
    max_slots: list[SlotAmountInput] | None = optional("Held at one time at most; 0 = nothing of it.")
    own_slots: list[SlotAmountInput] | None = optional("Its own: idle parts are lent, and called back.")
    max_queued: int | None = optional("Tasks that wait at one time.")
    gpu_hours_per_month: int | None = optional("Within a calendar month, UTC.")
    weight: int | None = optional("Its share among its siblings.")
    expected_version: int | None = optional(_VERSION + " 0 = there is none.")

    def to_request(self) -> NewQuota:
        """For the administrator."""
        return NewQuota(
            scope=self.scope,
            name=self.name,
            max_slots=tuple((item.slot, item.amount) for item in self.max_slots or ()),
            own_slots=tuple((item.slot, item.amount) for item in self.own_slots or ()),
            max_queued=self.max_queued,
            gpu_hours_per_month=self.gpu_hours_per_month,
            weight=self.weight,
        )


@strawberry.input(description="A quota to remove.")
class RemoveQuotaInput:
    scope: QuotaScope = strawberry.field(description="Whom it is for.")
    name: str = strawberry.field(default="", description="The user or project; empty for the cluster.")
    expected_version: int | None = optional(_VERSION)


@strawberry.input(description="An agent to drain.")
class DrainAgentInput:
    id: strawberry.ID = strawberry.field(description="The agent.")
    note: str | None = optional("Why, for everybody to read.")
    evict: bool = strawberry.field(default=False, description="Ask what runs there to make room, and wait again.")


@strawberry.input(description="Whether an agent is given something new.")
class SetAgentSchedulableInput:
    id: strawberry.ID = strawberry.field(description="The agent.")
    schedulable: bool = strawberry.field(description="Whether it is.")
    note: str | None = optional("Why, for everybody to read.")


@strawberry.input(description="Labels of an agent, in place of those that it has.")
class LabelAgentInput:
    id: strawberry.ID = strawberry.field(description="The agent.")
    labels: list[NameValueInput] = strawberry.field(description="All of them.")

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """For the administrator."""
        return tuple((item.name, item.value) for item in self.labels)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _pools(pools: list[PoolInput]) -> dict[PoolId, Pool]:
    found: dict[PoolId, Pool] = {}
    for item in pools:
        if item.name in found:
            raise InvalidRequest(f"pools: {item.name[:64]} is given twice", field="pools")
        found[PoolId(item.name)] = Pool(default_limit_ms=_ms(item.default_limit, f"pools[{item.name[:64]}]"))
    return found


def _ms(seconds: float | None, field: str) -> int | None:
    if seconds is None:
        return None
    if not 0 <= seconds <= DURATION_S_MAX:
        raise InvalidRequest(f"{field}: {seconds} s is not within 0 and {DURATION_S_MAX} s", field=field)
    return round(seconds * 1000)
