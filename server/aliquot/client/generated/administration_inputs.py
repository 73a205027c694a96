"""Administration inputs.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.enums import QuotaScope
from aliquot.client.generated.inputs import NameValueInput, SlotAmountInput


class ModelChargeInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a whole device of a model costs."""

    model: str
    """The model."""
    milli: int
    """Milli of a device."""


class ChargesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `Charges`."""

    accelerators: Sequence[ModelChargeInput] | None = None
    """All of them: those left out cost 1000."""
    cpu_milli: int | None = None
    """Per core."""
    mem_gib_milli: int | None = None
    """Per GiB of memory."""


class DrainAgentInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent to drain."""

    id: str
    """The agent."""
    note: str | None = None
    """Why, for everybody to read."""
    evict: bool = False
    """Ask what runs there to make room, and wait again."""


class LabelAgentInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Labels of an agent, in place of those that it has."""

    id: str
    """The agent."""
    labels: Sequence[NameValueInput]
    """All of them."""


class PoolInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of the cluster."""

    name: str
    """Its name."""
    default_limit: float | None = None
    """Seconds that a session without a limit is reckoned to run."""


class PreemptionRulesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `PreemptionRules`."""

    victims: str | None = None
    """nobody, willing or any."""
    run_min: float | None = None
    """Seconds."""
    preemptions_max: int | None = None
    """So often at most."""
    grace: float | None = None
    """Seconds."""


class RemoveQuotaInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A quota to remove."""

    scope: QuotaScope
    """Whom it is for."""
    name: str = ""
    """The user or project; empty for the cluster."""
    expected_version: int | None = None
    """Refuse if it is not at this version."""


class RetriesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `Retries`."""

    tries_min: int | None = None
    """So often even when the session asked for fewer."""
    wait_first: float | None = None
    """Seconds."""
    wait_max: float | None = None
    """Seconds."""
    jitter_pct: int | None = None
    """0 to 100."""


class SetAgentSchedulableInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whether an agent is given something new."""

    id: str
    """The agent."""
    schedulable: bool
    """Whether it is."""
    note: str | None = None
    """Why, for everybody to read."""


class SetQuotaInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A quota, in place of the one there is."""

    scope: QuotaScope
    """Whom it is for."""
    name: str = ""
    """The user or project; empty for the cluster."""
    max_slots: Sequence[SlotAmountInput] | None = None
    """Held at one time at most; 0 = nothing of it."""
    own_slots: Sequence[SlotAmountInput] | None = None
    """Its own: idle parts are lent, and called back."""
    max_queued: int | None = None
    """Tasks that wait at one time."""
    gpu_hours_per_month: int | None = None
    """Within a calendar month, UTC."""
    weight: int | None = None
    """Its share among its siblings."""
    expected_version: int | None = None
    """Refuse if it is not at this version. 0 = there is none."""


class WeightsInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `Weights`."""

    age: int | None = None
    """1 to 1000: without it somebody could wait for ever."""
    age_unit: float | None = None
    """Seconds."""
    fair: int | None = None
    """0 to 1000."""
    short: int | None = None
    """0 to 1000."""
    short_half: float | None = None
    """Seconds."""
    priority: int | None = None
    """0 to 1000."""
    level: float | None = None
    """Seconds."""
    sjf_age_pct: int | None = None
    """1 to 100."""


class UpdatePolicyInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of the policy: all of them together are taken, or none."""

    order: str | None = None
    """fair_share, priority, fcfs, sjf or gang."""
    backfill: str | None = None
    """none, easy or conservative."""
    backfill_depth: int | None = None
    """conservative: so many hold a reservation."""
    placement: str | None = None
    """Name of a placement strategy."""
    allocation: str | None = None
    """evenly or fill."""
    allow_fragmentation: bool | None = None
    """Whether shares may be split that one device could hold."""
    numa: str | None = None
    """prefer or interleave."""
    weights: WeightsInput | None = None
    """How much each thing counts."""
    half_life: float | None = None
    """Seconds."""
    charges: ChargesInput | None = None
    """What holding things costs."""
    pools: Sequence[PoolInput] | None = None
    """All of them: those left out are removed, unless something is in them."""
    preemption: PreemptionRulesInput | None = None
    """How sessions are asked to make room."""
    retries: RetriesInput | None = None
    """How sessions are tried again."""
    user_priority_max: str | None = None
    """The highest level that a user may ask for."""
    expected_version: int | None = None
    """Refuse if it is not at this version."""
