"""Quotas: how much a user, a project, or all of them together may hold, queue, and use in a month."""

from dataclasses import dataclass, field
from enum import StrEnum

from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.slots import ResourceSlot, SlotAmounts


class QuotaScope(StrEnum):
    """Whom a quota is for."""

    USER = "user"
    PROJECT = "project"
    CLUSTER = "cluster"
    """Everybody together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of one user, project, or the whole. What is missing does not limit.

    All slots of one kind of device draw on the same silicon and count once: `cuda.device 2` and `cuda.shares 2` are the
    same limit.
    """

    id: QuotaId
    """See `quota_id`."""
    version: int = 0
    scope: QuotaScope
    name: str = ""
    """The user or project; empty for the cluster."""
    max_slots: SlotAmounts = field(default_factory=SlotAmounts)
    """Held at one time at most, whatever is idle; zero = nothing of it."""
    own_slots: ResourceSlot = field(default_factory=ResourceSlot)
    """What is its own: idle parts are lent to others, and called back when it needs them. Users and projects only."""
    max_queued: int | None = None
    """Tasks that wait at one time, every index of an array counted."""
    gpu_hours_per_month: int | None = None
    """Charged within a calendar month, UTC; nothing new starts once they are spent."""
    weight: int | None = None
    """Its share among its siblings; without one, the accelerators of `own_slots` in milli, else those of `max_slots`,
    else 1000."""
    changed_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one user has been charged within one project. Written when something is given back.

    Charges are milli of a device x milliseconds, weighted as the policy's `charges` say.
    """

    id: str
    """See `account_id`."""
    version: int = 0
    project: ProjectId
    user: UserId
    used: int = 0
    """Decayed up to `at_us`; what is held since is not in it."""
    at_us: int = 0
    charged: int = 0
    """All of it, ever, without decay."""
    month: int = 0
    """The month that `month_charged` is of, as 202611, UTC."""
    month_charged: int = 0


def quota_id(scope: QuotaScope, name: str = "") -> QuotaId:
    """`user:alice`, `project:vision`, `cluster:`."""
    return QuotaId(f"{scope}:{name}")


def account_id(project: ProjectId, user: UserId) -> str:
    """`<project>/<user>`; project names hold no slash."""
    return f"{project}/{user}"
