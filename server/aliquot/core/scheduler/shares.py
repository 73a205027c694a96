"""Shares: projects share the cluster by weight, and the users of a project share its part.

Only projects and users with decayed usage above 0, or with a session in the queue, count as siblings: capacity that no
sibling asks for puts no one behind. Weights come from quotas.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aliquot.core.fairshare import ProjectUser, Usage
from aliquot.core.quota import accelerators, limits
from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.quotas import Quota, QuotaScope, quota_id

WEIGHT: Final = 1000
"""Weight without a quota that sets one."""
PARTS_PER_ONE: Final = 1_000_000


def weight_of(quota: Quota | None) -> int:
    """Weight of a share: the quota's, else the accelerators it owns, else those it may hold; see `Quota.weight`."""
    if quota is None:
        return WEIGHT
    if quota.weight is not None:
        return quota.weight
    own, most = accelerators(limits(quota.own_slots)), accelerators(limits(quota.max_slots))
    return sum(own.values()) or sum(most.values()) or WEIGHT


@dataclass(slots=True, kw_only=True)
class _Project:
    weight: int
    used: int = 0
    users: dict[UserId, int] = field(default_factory=dict)
    """Weight of each user."""
    users_weight: int = 0


class Shares:
    """Shares of all projects and users, and their usage, at one time."""

    def __init__(
        self, usage: Usage, *, waiting: Iterable[ProjectUser], quotas: Mapping[QuotaId, Quota], now_us: int
    ) -> None:
        """
        Args:
            waiting: projects and users with a session in the queue.
            quotas: source of the weights.
        """
        self._quotas = quotas
        self._used = usage.used_at(now_us)
        self._total = sum(self._used.values())
        self._projects: dict[ProjectId, _Project] = {}
        for key in dict.fromkeys([*self._used, *waiting]):
            self._add(*key)
        self._weight = sum(project.weight for project in self._projects.values())

    def fairness(self, project: ProjectId, user: UserId) -> int:
        """Mean of the project's and the user's fairness, both relative to the whole cluster; millionths."""
        project_entry, weight = self._projects[project], self._weight
        of_project = fairness(project_entry.used, total=self._total, weight=project_entry.weight, weights=weight)
        of_user = fairness(
            self._used.get((project, user), 0),
            total=self._total,
            weight=project_entry.weight * project_entry.users[user],
            weights=weight * project_entry.users_weight,
        )
        return (of_project + of_user) // 2

    def entitlement(self, project: ProjectId, user: UserId) -> float:
        """The part of the cluster that the weights give a user in a project, among those who compete; 0 to 1."""
        found = self._projects[project]
        weights = self._weight * found.users_weight
        return found.weight * found.users[user] / weights if weights else 0.0

    def _add(self, project: ProjectId, user: UserId) -> None:
        project_entry = self._projects.get(project)
        if project_entry is None:
            project_entry = _Project(weight=self._weight_of(QuotaScope.PROJECT, project))
            self._projects[project] = project_entry
        weight = self._weight_of(QuotaScope.USER, user)
        project_entry.users[user] = weight
        project_entry.users_weight += weight
        project_entry.used += self._used.get((project, user), 0)

    def _weight_of(self, scope: QuotaScope, name: str) -> int:
        return weight_of(self._quotas.get(quota_id(scope, name)) if self._quotas else None)


def fairness(used: int, *, total: int, weight: int, weights: int) -> int:
    """Fairness in millionths: 1 without usage, 1/2 at the exact share of total usage, less above it.

    fairness = 1 / (1 + (used / total) / (weight / weights)); 0 without a weight.
    """
    if not weight:
        return 0
    if not used:
        return PARTS_PER_ONE
    return PARTS_PER_ONE * total * weight // (total * weight + used * weights)
