"""Billing.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from aliquot.client.generated.enums import AtBudget, TimeKind


class Cost(Struct, frozen=True, kw_only=True):
    """Price of a session."""

    currency: str
    """Name of the currency."""
    amount: float | None
    """Of its expected run time, or what it has cost so far; null if the run time is unknown."""
    amount_max: float | None
    """If it runs until its time limit; null without one, and for what it has cost."""
    per_hour: float
    """Of all that it requests, in its first hour; for what it has cost, the mean per GPU-hour."""
    text: str
    """The same as text."""


class FairShare(Struct, frozen=True, kw_only=True):
    """Fair share of a user in a project."""

    project: str
    """The project."""
    user: str
    """The user."""
    share: float
    """Share of all decayed usage, 0 to 1."""
    entitlement: float
    """By the weights of those who compete now, 0 to 1."""
    gpu_hours_decayed: float
    """Decayed usage, which counts in fair share."""
    gpus_held: float
    """GPUs held now, weighted by the policy's `charges`."""
    curve: tuple[float, ...]
    """Decayed GPU-hours from now on, at equal steps, if nothing more is held."""
    step: float
    """Seconds between two points of the curve."""
    at_entitlement_at: datetime | None
    """
    When the share falls to the entitlement if nothing more is held and the others go on as now; null if it is not above
    it, or not within eight half-lives.
    """
    advice: str
    """What would move the sessions up."""


class Price(Struct, frozen=True, kw_only=True):
    """Price of a whole accelerator per hour. The first that applies counts."""

    price: float
    """Per device and hour, in the currency."""
    model: str | None
    """Model, a pattern like `*H100*`; null = every model."""
    pool: str | None
    """Pool of the agent; null = every pool."""
    from_hour: int
    """First hour of the day, 0 to 23."""
    until_hour: int
    """The hour after the last one, 1 to 24; it may be the next day's."""


class PriceInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Price of a whole accelerator per hour."""

    price: float
    """Per device and hour, in the currency, 0 or more."""
    model: str | None = None
    """Model, a pattern like `*H100*`; null = every model."""
    pool: str | None = None
    """Pool of the agent; null = every pool."""
    from_hour: int = 0
    """First hour of the day, 0 to 23."""
    until_hour: int = 24
    """The hour after the last one, 1 to 24. Below `from_hour`: of the next day."""


class Prices(Struct, frozen=True, kw_only=True):
    """Prices of accelerators. Without any, nothing is billed."""

    rates: tuple[Price, ...]
    """The prices, in their order."""
    currency: str
    """Name of the currency."""
    utc_offset_minutes: int
    """Local time of the hours of the day, in minutes ahead of UTC."""
    at_budget: AtBudget
    """What happens once a budget is used up."""


class PricesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of `Prices`. Null fields are unchanged."""

    rates: Sequence[PriceInput] | None = None
    """The prices; replaces the list. Empty = nothing is billed."""
    currency: str | None = None
    """Name of the currency, 1 to 8 letters."""
    utc_offset_minutes: int | None = None
    """Minutes ahead of UTC, -1440 to 1440."""
    at_budget: str | None = None
    """hold or low."""


class StatementLine(Struct, frozen=True, kw_only=True):
    """Device time of one kind."""

    kind: TimeKind
    """What it was held for."""
    amount: int
    """Thousandths of a device x milliseconds, exact."""
    gpu_hours: float
    """The same in GPU-hours."""
    part: float
    """Of everything held, 0 to 1."""


class Statement(Struct, frozen=True, kw_only=True):
    """What a project held in one calendar month, UTC, and its price."""

    project: str
    """The project."""
    month: str
    """Like `2026-11`."""
    currency: str
    """Name of the currency."""
    held: int
    """Thousandths of a device x milliseconds; the sum of the lines."""
    gpu_hours: float
    """The same in GPU-hours."""
    lines: tuple[StatementLine, ...]
    """Device time by kind."""
    ettr: float | None
    """Effective training time ratio: 1 - lost / held, 0 to 1; null if nothing was held."""
    cost: float
    """Price of what was held, without `credited`."""
    credited: float
    """Price of work that preemption or a fault of the cluster took."""
    budget: float | None
    """The project's present budget per month; null = none."""
    open_gpu_hours: float
    """Held in the month by sessions that still hold it; it is entered at their release."""
    open_cost: float
    """Its price so far."""
    sessions: int
    """Sessions that ended after they had started."""
    mean_wait: float | None
    """Their mean time from the submission to the start."""
    preemptions: int
    """How often sessions were preempted."""
    share: float
    """Of what all projects held in the month, 0 to 1."""
    entitlement: float
    """By the present weights of the projects that held something in the month, 0 to 1."""
    behind: tuple[str, ...]
    """Why its sessions waited, in sentences."""
