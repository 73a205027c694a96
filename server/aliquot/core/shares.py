"""Shares: projects share the cluster by weight, and the users of a project its share.

Only those count as siblings who used something that is not forgotten yet, or who have a session in the queue: what
nobody else wants is no reason to be behind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aliquot.core.fairshare import Place, Usage
from aliquot.core.weights import weight_of
from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id

PARTS_PER_ONE: Final = 1_000_000


@dataclass(slots=True, kw_only=True)
class _Project:
    weight: int
    used: int = 0
    users: dict[UserId, int] = field(default_factory=dict)
    """Their weights."""
    users_weight: int = 0


class Shares:
    """What everybody may expect, and how far he is from it, at one time."""

    def __init__(self, usage: Usage, *, waiting: Iterable[Place], quotas: Mapping[QuotaId, Quota], now_us: int) -> None:
        """
        Args:
            waiting: who has a session in the queue.
            quotas: give the weights.
        """
        self._quotas = quotas
        self._used = usage.used_at(now_us)
        self._total = sum(self._used.values())
        self._projects: dict[ProjectId, _Project] = {}
        for place in dict.fromkeys([*self._used, *waiting]):
            self._add(*place)
        self._weight = sum(project.weight for project in self._projects.values())

    def fairness(self, project: ProjectId, user: UserId) -> int:
        """The mean of the project's term and the user's; both are `fairness`, of the whole cluster."""
        within, weight = self._projects[project], self._weight
        of_project = fairness(within.used, total=self._total, weight=within.weight, weights=weight)
        of_user = fairness(
            self._used.get((project, user), 0),
            total=self._total,
            weight=within.weight * within.users[user],
            weights=weight * within.users_weight,
        )
        return (of_project + of_user) // 2

    def _add(self, project: ProjectId, user: UserId) -> None:
        within = self._projects.get(project)
        if within is None:
            within = _Project(weight=self._weight_of(QuotaScope.PROJECT, project))
            self._projects[project] = within
        weight = self._weight_of(QuotaScope.USER, user)
        within.users[user] = weight
        within.users_weight += weight
        within.used += self._used.get((project, user), 0)

    def _weight_of(self, scope: QuotaScope, name: str) -> int:
        return weight_of(self._quotas.get(quota_id(scope, name)) if self._quotas else None)


def fairness(used: int, *, total: int, weight: int, weights: int) -> int:
    """In millionths: all of it for who has used nothing, a half at one's exact share of what all used, less above.

    fairness = 1 / (1 + (used / total) / (weight / weights)); nothing without a weight.
    """
    if not weight:
        return 0
    if not used:
        return PARTS_PER_ONE
    return PARTS_PER_ONE * total * weight // (total * weight + used * weights)
