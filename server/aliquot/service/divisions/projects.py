"""Projects: who uses them, what they hold and have used.

Nobody makes a project: one is known by what was held for it, by its sessions, and by its quota. Who its members are is
not told: that is for operators.
"""

from collections import defaultdict
from collections.abc import Mapping

from aliquot.service.divisions.held_gpus import gpus_by_project
from aliquot.service.population import NOBODY
from aliquot.service.quotas import is_void, quota_view
from aliquot.service.state import State
from aliquot.service.usage import usage_views
from aliquot_schema.admin_views import QuotaView, UsageView
from aliquot_schema.division_views import ProjectView
from aliquot_schema.ids import ProjectId
from aliquot_schema.natural_order import natural_key
from aliquot_schema.quotas import QuotaScope


def project_views(state: State, *, name: str | None = None, now_us: int) -> tuple[ProjectView, ...]:
    """All of them in natural order, or the one of this name."""
    usage: defaultdict[str, list[UsageView]] = defaultdict(list)
    users: defaultdict[str, set[str]] = defaultdict(set)
    for used in usage_views(state.usage, project=name, now_us=now_us):
        usage[used.project].append(used)
        users[used.project].add(used.user)
    for project, owner in state.population.owners():
        users[project].add(owner)
    quotas, held, there = _quotas(state), gpus_by_project(state), state.population.of_projects()
    known = sorted(users.keys() | quotas.keys(), key=natural_key)
    return tuple(
        ProjectView(
            name=project,
            users=tuple(sorted(users[project], key=natural_key)),
            total_queued=there.get(ProjectId(project), NOBODY).waiting,
            running=there.get(ProjectId(project), NOBODY).running,
            allocated_gpus=held.get(ProjectId(project), 0.0),
            usage=tuple(usage[project]),
            gpu_hours=sum(used.gpu_hours for used in usage[project]),
            gpu_hours_month=sum(used.gpu_hours_month for used in usage[project]),
            share=sum(used.share for used in usage[project]),
            quota=quotas.get(project),
        )
        for project in known
        if name in (None, project)
    )


def _quotas(state: State) -> Mapping[str, QuotaView]:
    found = (quota for quota in state.quotas.values() if quota.scope is QuotaScope.PROJECT and not is_void(quota))
    return {quota.name: quota_view(quota) for quota in found}
