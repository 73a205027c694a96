"""The policy, quotas and use, as GraphQL types. Durations are seconds."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.amounts import SlotAmount
from aliquot_schema.graphql.enums import Backfill, QuotaScope, Victims
from aliquot_schema.graphql.scalars import AnyPriority


@strawberry.type(description="How much each thing counts in an order policy; only the ratios matter.")
class Weights:
    age: int = strawberry.field(description="fair_share: for every `age_unit` waited.")
    age_unit: float = strawberry.field(description="Seconds.")
    fair: int = strawberry.field(description="fair_share: for who has used nothing.")
    short: int = strawberry.field(description="fair_share: for a session that is over at once.")
    short_half: float = strawberry.field(description="Seconds; a session this long gets half of `short`.")
    priority: int = strawberry.field(description="fair_share: for every level above the lowest.")
    level: float = strawberry.field(description="priority: seconds of waiting that make up for one level.")
    sjf_age_pct: int = strawberry.field(description="sjf: the part of its wait that is taken off an estimate.")


@strawberry.type(description="What a whole device of a model costs.")
class ModelCharge:
    model: str = strawberry.field(description="The model.")
    milli: int = strawberry.field(description="Milli of a device.")


@strawberry.type(description="What holding things costs, in milli of a device.")
class Charges:
    accelerators: list[ModelCharge] = strawberry.field(description="By model; others cost 1000.")
    cpu_milli: int = strawberry.field(description="Per core.")
    mem_gib_milli: int = strawberry.field(description="Per GiB of memory.")


@strawberry.type(description="A part of the cluster that sessions choose by name.")
class Pool:
    name: str = strawberry.field(description="Its name.")
    default_limit: float | None = strawberry.field(
        description="Seconds that a session without a limit is reckoned to run; it never kills."
    )


@strawberry.type(description="How sessions are asked to make room.")
class PreemptionRules:
    victims: Victims = strawberry.field(description="Who may be asked.")
    run_min: float = strawberry.field(description="Seconds that a session is left alone for.")
    preemptions_max: int = strawberry.field(description="So often at most.")
    grace: float = strawberry.field(description="Seconds to the stop, for sessions that name none.")


@strawberry.type(description="How sessions are tried again after failures that are not their own.")
class Retries:
    tries_min: int = strawberry.field(description="So often even when the session asked for fewer.")
    wait_first: float = strawberry.field(description="Seconds; doubled from try to try.")
    wait_max: float = strawberry.field(description="Seconds.")
    jitter_pct: int = strawberry.field(description="Each wait is moved by up to so much either way.")


@strawberry.type(description="What a pass of the allocator decides by.")
class Policy:
    version: int = strawberry.field(description="Counts its changes; 0 = nobody ever changed it.")
    order: str = strawberry.field(description="Who is next: fair_share, priority, fcfs, sjf or gang.")
    backfill: Backfill = strawberry.field(description="Who may pass the head of the queue.")
    backfill_depth: int = strawberry.field(description="conservative: so many hold a reservation.")
    placement: str = strawberry.field(description="Where sessions go.")
    allocation: str = strawberry.field(description="How an amount is spread over devices: evenly or fill.")
    allow_fragmentation: bool = strawberry.field(description="Whether shares may be split that one device could hold.")
    numa: str = strawberry.field(description="prefer one NUMA node, or interleave.")
    weights: Weights = strawberry.field(description="How much each thing counts.")
    half_life: float = strawberry.field(description="Seconds after which a use counts half.")
    charges: Charges = strawberry.field(description="What holding things costs.")
    pools: list[Pool] = strawberry.field(description="The parts of the cluster.")
    preemption: PreemptionRules = strawberry.field(description="How sessions are asked to make room.")
    retries: Retries = strawberry.field(description="How sessions are tried again.")
    user_priority_max: AnyPriority = strawberry.field(description="The highest level that a user may ask for.")
    changed_at: datetime | None = strawberry.field(description="When it was changed last.")


@strawberry.type(description="Limits of a user, a project, or all together. What is missing does not limit.")
class Quota:
    scope: QuotaScope = strawberry.field(description="Whom it is for.")
    name: str = strawberry.field(description="The user or project; empty for the cluster.")
    version: int = strawberry.field(description="Counts its changes.")
    max_slots: list[SlotAmount] = strawberry.field(description="Held at one time at most; 0 = nothing of it.")
    own_slots: list[SlotAmount] = strawberry.field(description="Its own: idle parts are lent, and called back.")
    max_queued: int | None = strawberry.field(description="Tasks that wait at one time.")
    gpu_hours_per_month: int | None = strawberry.field(description="Within a calendar month, UTC.")
    weight: int | None = strawberry.field(description="Its share among its siblings.")
    changed_at: datetime = strawberry.field(description="When it was changed last.")


@strawberry.type(description="What a user has used within a project. Hours of a whole device, weighted by `charges`.")
class Usage:
    project: str = strawberry.field(description="The project.")
    user: str = strawberry.field(description="The user.")
    gpu_hours: float = strawberry.field(description="All of it.")
    gpu_hours_month: float = strawberry.field(description="In this calendar month, UTC.")
    gpu_hours_decayed: float = strawberry.field(description="What counts in fair share now.")
    share: float = strawberry.field(description="Of all that counts now, 0 to 1.")
