"""Administration.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.amounts import SlotAmount
from aliquot.client.generated.enums import Backfill, QuotaScope, Victims


class ModelCharge(Struct, frozen=True, kw_only=True):
    """What a whole device of a model costs."""

    model: str
    """The model."""
    milli: int
    """Milli of a device."""


class Charges(Struct, frozen=True, kw_only=True):
    """What holding things costs, in milli of a device."""

    accelerators: tuple[ModelCharge, ...]
    """By model; others cost 1000."""
    cpu_milli: int
    """Per core."""
    mem_gib_milli: int
    """Per GiB of memory."""


class Weights(Struct, frozen=True, kw_only=True):
    """How much each thing counts in an order policy; only the ratios matter."""

    age: int
    """fair_share: for every `age_unit` waited."""
    age_unit: float
    """Seconds."""
    fair: int
    """fair_share: for who has used nothing."""
    short: int
    """fair_share: for a session that is over at once."""
    short_half: float
    """Seconds; a session this long gets half of `short`."""
    priority: int
    """fair_share: for every level above the lowest."""
    level: float
    """priority: seconds of waiting that make up for one level."""
    sjf_age_pct: int
    """sjf: the part of its wait that is taken off an estimate."""


class Pool(Struct, frozen=True, kw_only=True):
    """A part of the cluster that sessions choose by name."""

    name: str
    """Its name."""
    default_limit: float | None
    """Seconds that a session without a limit is reckoned to run; it never kills."""


class PreemptionRules(Struct, frozen=True, kw_only=True):
    """How sessions are asked to make room."""

    victims: Victims
    """Who may be asked."""
    run_min: float
    """Seconds that a session is left alone for."""
    preemptions_max: int
    """So often at most."""
    grace: float
    """Seconds to the stop, for sessions that name none."""


class Retries(Struct, frozen=True, kw_only=True):
    """How sessions are tried again after failures that are not their own."""

    tries_min: int
    """So often even when the session asked for fewer."""
    wait_first: float
    """Seconds; doubled from try to try."""
    wait_max: float
    """Seconds."""
    jitter_pct: int
    """Each wait is moved by up to so much either way."""


class Policy(Struct, frozen=True, kw_only=True):
    """What a pass of the allocator decides by."""

    version: int
    """Counts its changes; 0 = nobody ever changed it."""
    order: str
    """Who is next: fair_share, priority, fcfs, sjf or gang."""
    backfill: Backfill
    """Who may pass the head of the queue."""
    backfill_depth: int
    """conservative: so many hold a reservation."""
    placement: str
    """Where sessions go."""
    allocation: str
    """How an amount is spread over devices: evenly or fill."""
    allow_fragmentation: bool
    """Whether shares may be split that one device could hold."""
    numa: str
    """prefer one NUMA node, or interleave."""
    weights: Weights
    """How much each thing counts."""
    half_life: float
    """Seconds after which a use counts half."""
    charges: Charges
    """What holding things costs."""
    pools: tuple[Pool, ...]
    """The parts of the cluster."""
    preemption: PreemptionRules
    """How sessions are asked to make room."""
    retries: Retries
    """How sessions are tried again."""
    user_priority_max: str
    """The highest level that a user may ask for."""
    changed_at: datetime | None
    """When it was changed last."""


class Quota(Struct, frozen=True, kw_only=True):
    """Limits of a user, a project, or all together. What is missing does not limit."""

    scope: QuotaScope
    """Whom it is for."""
    name: str
    """The user or project; empty for the cluster."""
    version: int
    """Counts its changes."""
    max_slots: tuple[SlotAmount, ...]
    """Held at one time at most; 0 = nothing of it."""
    own_slots: tuple[SlotAmount, ...]
    """Its own: idle parts are lent, and called back."""
    max_queued: int | None
    """Tasks that wait at one time."""
    gpu_hours_per_month: int | None
    """Within a calendar month, UTC."""
    weight: int | None
    """Its share among its siblings."""
    changed_at: datetime
    """When it was changed last."""


class Usage(Struct, frozen=True, kw_only=True):
    """What a user has used within a project. Hours of a whole device, weighted by `charges`."""

    project: str
    """The project."""
    user: str
    """The user."""
    gpu_hours: float
    """All of it."""
    gpu_hours_month: float
    """In this calendar month, UTC."""
    gpu_hours_decayed: float
    """What counts in fair share now."""
    share: float
    """Of all that counts now, 0 to 1."""
