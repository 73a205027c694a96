"""What quotas say to somebody who submits: what could never start under them, and when too much waits."""

from collections.abc import Callable, Iterable, Mapping

from aliquot.core.quota import asked_as, names_over
from aliquot.core.quota_amounts import (
    counted,
    limits,
    text_of,
)
from aliquot.core.snapshot import Request
from aliquot_schema.errors import QuotaExceeded
from aliquot_schema.ids import ProjectId, QuotaId, UserId
from aliquot_schema.quotas import Quota
from aliquot_schema.sessions import SessionSpec


def impossible_under(
    spec: SessionSpec, quotas: Mapping[QuotaId, Quota], *, user: UserId, project: ProjectId
) -> QuotaExceeded | None:
    """What to tell who submits a session that could not start even if nothing else were held or charged.

    One of its fallbacks is enough to make it possible.
    """
    requests = [(spec.slots, spec.cluster_size), *((one.slots, one.cluster_size) for one in spec.fallbacks)]
    first: QuotaExceeded | None = None
    for slots, cluster_size in requests:
        refusal = _too_much(slots.finite, _over(quotas, user, project), cluster_size=cluster_size)
        if refusal is None:
            return None
        first = first or refusal
    return first


def too_many_queued(
    tasks: int,
    quotas: Mapping[QuotaId, Quota],
    *,
    queued: Callable[[Quota], int],
    user: UserId,
    project: ProjectId,
) -> QuotaExceeded | None:
    """What to tell who submits more tasks than may wait at one time.

    Args:
        tasks: of the submission, every index of an array counted.
        queued: counts the tasks that wait already under a quota; asked only of quotas that limit them.
    """
    for quota in _over(quotas, user, project):
        if quota.max_queued is not None:
            waiting = queued(quota) + tasks
            if waiting > quota.max_queued:
                return QuotaExceeded(
                    f"quota {quota.id}: {waiting} tasks would wait, and {quota.max_queued} may; submit fewer at a time",
                    quota=quota.id,
                    resource="queued",
                    requested=str(tasks),
                    limit=str(quota.max_queued),
                )
    return None


def _too_much(request: Request, quotas: Iterable[Quota], *, cluster_size: int) -> QuotaExceeded | None:
    need = counted(request, times=cluster_size)
    for quota in quotas:
        for name, limit in limits(quota.max_slots).items():
            if need.get(name, 0) > limit:
                slot = asked_as(name, (slot for slot, _ in request))
                requested, most = text_of(slot, need[name]), text_of(slot, limit)
                return QuotaExceeded(
                    f"quota {quota.id}: {requested} {slot} are more than {most}; ask for less"
                    if limit
                    else f"quota {quota.id}: no {slot} may be held",
                    quota=quota.id,
                    resource=slot,
                    requested=requested,
                    limit=most,
                )
        if quota.gpu_hours_per_month == 0:
            return QuotaExceeded(
                f"quota {quota.id}: no GPU-hours may be used",
                quota=quota.id,
                resource="gpu_hours",
                requested="",
                limit="0",
            )
    return None


def _over(quotas: Mapping[QuotaId, Quota], user: UserId, project: ProjectId) -> list[Quota]:
    return [quotas[name] for name in names_over(user, project) if name in quotas]
