"""Quotas: limits on what a user, a project or the cluster may hold, queue and use per month; and their accounting."""

from msgspec import Struct, field

from aliquot_schema.enums import DescribedStr
from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts


class QuotaScope(DescribedStr):
    """What a quota applies to."""

    USER = "user", "One user."
    PROJECT = "project", "One project."
    CLUSTER = "cluster", "All users together."
    KEY = "key", "The sessions of one API key; its only limit is `budget`."


class Quota(Struct, frozen=True, kw_only=True):
    """Limits of one user, one project or the cluster. A missing value is no limit.

    Slots of one kind of device count together: `cuda.device 2` and `cuda.shares 2` are the same limit.
    """

    id: QuotaId
    """See `quota_id`."""
    version: int = 0
    scope: QuotaScope
    name: str = ""
    """The user, the project or the id of the API key; empty for the cluster."""
    max_slots: SlotAmounts = field(default_factory=SlotAmounts)
    """Upper bound on what is held at one time; zero = none."""
    own_slots: ResourceSlot = field(default_factory=ResourceSlot)
    """Guaranteed amounts: idle parts are lent to others and reclaimed when needed. Users and projects only."""
    max_queued: int | None = None
    """Upper bound on waiting tasks; each index of an array counts."""
    gpu_hours_per_month: int | None = None
    """GPU-hours per calendar month, UTC; nothing new starts once they are used up."""
    weight: int | None = None
    """Fair-share weight among its siblings; None = the accelerators of `own_slots` in milli, else those of
    `max_slots`, else 1000."""
    changed_us: int = 0
    budget: int | None = None
    """Upper bound on the price of what is held in a calendar month, UTC, in millionths of the currency; see
    `Prices.at_budget`."""


class Account(Struct, frozen=True, kw_only=True):
    """Usage charged to one user within one project, updated when a lease is released.

    Charges are milli of a device x milliseconds, weighted by the policy's `charges`.
    """

    id: str
    """See `account_id`."""
    version: int = 0
    project: ProjectId
    user: UserId
    used: int = 0
    """Decayed usage as of `at_us`; leases held since are not included."""
    at_us: int = 0
    charged: int = 0
    """Total without decay."""
    month: int = 0
    """Calendar month of `month_charged`, as 202611, UTC."""
    month_charged: int = 0


def quota_id(scope: QuotaScope, name: str = "") -> QuotaId:
    """`user:alice`, `project:vision`, `cluster:`."""
    return QuotaId(f"{scope}:{name}")


def quota_holder(id: str) -> str:
    """Who a quota limits, as the start of a sentence: `User alice`, `Project vision`, `The cluster`."""
    scope, _, name = id.partition(":")
    if scope == QuotaScope.KEY:
        return f"API key {name}"
    return f"{scope.capitalize()} {name}" if name else "The cluster"


def account_id(project: ProjectId, user: UserId) -> str:
    """`<project>/<user>`; project names hold no slash."""
    return f"{project}/{user}"
