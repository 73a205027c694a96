"""Read models of prices, statements, estimates and fair shares. Money is in units of the currency."""

from datetime import datetime

from msgspec import Struct

from aliquot_schema.billing import AtBudget, TimeKind
from aliquot_schema.enums import DescribedStr


class PriceView(Struct, frozen=True, kw_only=True):
    """See `billing.Price`."""

    price: float
    model: str | None
    pool: str | None
    from_hour: int
    until_hour: int


class PricesView(Struct, frozen=True, kw_only=True):
    """See `billing.Prices`."""

    rates: tuple[PriceView, ...]
    currency: str
    utc_offset_minutes: int
    at_budget: AtBudget


class StatementLineView(Struct, frozen=True, kw_only=True):
    """Device time of one kind."""

    kind: TimeKind
    amount: int
    """Thousandths of a device x milliseconds, exact."""
    gpu_hours: float
    part: float
    """Of everything held, 0 to 1."""


class StatementView(Struct, frozen=True, kw_only=True):
    """The statement of a project for one month, UTC."""

    project: str
    month: str
    """Like `2026-11`."""
    currency: str
    held: int
    """Thousandths of a device x milliseconds; the sum of the lines."""
    gpu_hours: float
    lines: tuple[StatementLineView, ...]
    ettr: float | None
    """Part of what was held whose work was not lost, 0 to 1: 1 - lost / held; None = nothing was held."""
    cost: float
    credited: float
    """What preemption and faults of the cluster took; not part of `cost`."""
    budget: float | None
    open_gpu_hours: float
    """Held in this month by sessions that still hold it; entered at their release."""
    open_cost: float
    sessions: int
    """That ended in the month after they had started."""
    mean_wait: float | None
    """Their time from the submission to the start, in seconds."""
    preemptions: int
    share: float
    """Of what all projects held in the month, 0 to 1."""
    entitlement: float
    """By the weights of the projects with a statement for the month, 0 to 1."""
    behind: tuple[str, ...]
    """Why its sessions waited, in sentences."""


class DocumentFormat(DescribedStr):
    """Format of a statement."""

    CSV = "csv", "One figure per row, for a spreadsheet or a program."
    HTML = "html", "A page to read or print."


class CostView(Struct, frozen=True, kw_only=True):
    """Price of a session."""

    currency: str
    amount: float | None
    """Of the expected run time, or so far; None = the run time is unknown."""
    amount_max: float | None
    """If it runs until its time limit; None = it has none, or it is not an estimate."""
    per_hour: float
    """Price of the first hour; for what it has cost, the mean per GPU-hour."""
    text: str
    """One sentence."""


class FairShareView(Struct, frozen=True, kw_only=True):
    """The fair share of one user in one project."""

    project: str
    user: str
    share: float
    """Of all decayed usage, 0 to 1."""
    entitlement: float
    """By the weights of those who compete now, 0 to 1."""
    gpu_hours_decayed: float
    gpus_held: float
    """Held now, weighted by the policy's charges."""
    curve: tuple[float, ...]
    """Decayed GPU-hours from now on, at equal steps, if nothing more is held."""
    step: float
    """Seconds between two points of the curve."""
    at_entitlement_at: datetime | None
    """When the share falls to the entitlement if nothing more is held and the others go on; None = it is not above it,
    or not within eight half-lives."""
    advice: str
    """What would move the sessions up, in one or two sentences."""
