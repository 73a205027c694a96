"""Checks of a new session against the cluster, its policy and its quotas: what can be known now is said now."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from aliquot.core.quota_limits import impossible_under, too_many_queued
from aliquot.service.demand import tasks_waiting
from aliquot.service.state import State
from aliquot_schema.errors import AliquotError, InvalidRequest, QueueFull, UnknownSlot
from aliquot_schema.ids import PoolId, ProjectId, UserId
from aliquot_schema.quotas import Quota, QuotaScope
from aliquot_schema.sessions import Session, SessionSpec
from aliquot_schema.slots import ResourceSlot

OTHER_FIELDS: Final = ("labels:", "cluster_size:")
PENDING_MAX: Final = 100_000
"""So many tasks may wait, unless a setting says otherwise."""
RETRY_AFTER_S: Final = 60.0


def check_session(state: State, session: Session) -> None:
    """Refuse a session that could never run.

    Raises:
        InvalidRequest, UnknownSlot, ImpossibleRequest, QuotaExceeded: the message says what to change.
    """
    _check_pool(state, session.pool)
    _check_room(state, session)
    refusal = impossible_under(session.spec, state.quotas, user=session.owner, project=session.project)
    if refusal is not None:
        raise refusal


def check_queue(state: State, sessions: Sequence[Session], *, pending_max: int = PENDING_MAX) -> None:
    """Refuse sessions that would make too many wait.

    Raises:
        QueueFull, QuotaExceeded: nothing of them may be kept.
    """
    new_tasks = sum(map(tasks_waiting, sessions))
    if state.tasks_pending + new_tasks > pending_max:
        raise QueueFull(
            f"{state.tasks_pending} tasks wait, these would be {new_tasks} more, and the server keeps {pending_max}; "
            "try again when some of them have started",
            limit=pending_max,
            queued=state.tasks_pending,
            retry_after=RETRY_AFTER_S,
        )
    if any(quota.max_queued is not None for quota in state.quotas.values()):
        new = Counter[tuple[UserId, ProjectId]]()
        for session in sessions:
            new[session.owner, session.project] += tasks_waiting(session)
        for (user, project), tasks in new.items():
            refusal = too_many_queued(
                tasks, state.quotas, queued=lambda quota: _queued(state, quota), user=user, project=project
            )
            if refusal is not None:
                raise refusal


def _queued(state: State, quota: Quota) -> int:
    found = 0
    for session_id in state.pending:
        session = state.sessions[session_id]
        if quota.scope is QuotaScope.CLUSTER or quota.name == (
            session.owner if quota.scope is QuotaScope.USER else session.project
        ):
            found += tasks_waiting(session)
    return found


def _check_pool(state: State, pool: PoolId) -> None:
    if pool not in state.policy.pools:
        known = ", ".join(sorted(state.policy.pools))
        raise InvalidRequest(f"pool: there is no {pool}; pools are {known}", field="pool")


def _check_room(state: State, session: Session) -> None:
    for field, spec in _requests(session.spec):
        if state.possible.has_agents:
            _check_slots(state, spec.slots, field=field)
        refusal = state.possible.refusal(spec, pool=session.pool, options=state.rules.allocation)
        if refusal is not None:
            raise _about(refusal, field)


def _requests(spec: SessionSpec) -> Iterator[tuple[str, SessionSpec]]:
    """What it asks for, and what it settles for; each with the field that says so."""
    yield "slots", spec
    for place, fallback in enumerate(spec.fallbacks, start=1):
        yield (
            f"fallbacks: number {place}",
            replace(
                spec,
                slots=fallback.slots,
                cluster_size=fallback.cluster_size,
                gpu_memory_bytes=fallback.gpu_memory_bytes,
            ),
        )


def _about(refusal: AliquotError, field: str) -> AliquotError:
    """The refusal, with the field that it is about; some of the first request name another one by themselves."""
    if field != "slots" or not refusal.message.startswith(OTHER_FIELDS):
        refusal.message = f"{field}: {refusal.message}"
        refusal.args = (refusal.message,)
    return refusal


def _check_slots(state: State, slots: ResourceSlot, *, field: str) -> None:
    known = tuple(sorted(slot.id for slot in state.slots.values() if not slot.retired))
    for slot in slots:
        if slot not in known:
            raise UnknownSlot(
                f"{field}: no agent ever had {slot}; known are {', '.join(known)}", slot=slot, known=known
            )
