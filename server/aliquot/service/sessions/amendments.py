"""Amendments: a waiting session with another request, checked as a submission is."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from aliquot.core.validation.fields import count, label, milliseconds, models_of
from aliquot.core.validation.session import amended_amounts, amounts_of, priority_of
from aliquot.service.access import check_priority, check_project
from aliquot.service.sessions.submission_checks import check_moved, check_project_exists, full_names, per_gpu
from aliquot.service.state.state import State
from aliquot_schema.errors import Forbidden, InvalidRequest, StateConflict
from aliquot_schema.ids import PoolId, ProjectId, SlotName
from aliquot_schema.requests import Caller, Role, SessionAmendment
from aliquot_schema.resources.slots import Amount, ResourceSlot, Unlimited, is_accelerator
from aliquot_schema.sessions import CLUSTER_SIZE_MAX, HELD_BY_ARRAY, Session

NO_CHANGES: Final[Mapping[SlotName, int]] = {}


def amended(state: State, session: Session, amendment: SessionAmendment, caller: Caller) -> Session:
    """The session with another request; it keeps its place in the queue.

    CPUs and memory that came with its GPUs follow them, and its fallbacks are dropped when the amounts, the number of
    kernels or the pool change: they were made for the earlier request.

    Raises:
        StateConflict: it does not wait, or runs nothing.
        Forbidden: the caller may not use the project or the priority, or move the session to another project.
        InvalidRequest, UnknownSlot, QuotaExceeded: a value is wrong; the message names the field.
    """
    _check_waits(session)
    changed = replace(session, project=_project(state, session, amendment, caller))
    if amendment.priority is not None:
        level = priority_of(amendment.priority)
        check_priority(caller, level, state.policy)
        changed = replace(changed, priority=level)
    spec: dict[str, Any] = {}
    if amendment.time_limit is not None:
        spec["time_limit_ms"] = milliseconds(amendment.time_limit, field="time_limit")
    if amendment.preemptible is not None:
        spec["preemptible"] = amendment.preemptible
    if amendment.models is not None:
        spec["models"] = models_of(amendment.models, field="models")
    changed = replace(changed, spec=replace(changed.spec, **spec))
    pool = PoolId(label(amendment.pool, field="pool") or session.pool)
    if amendment.slots is not None or amendment.cluster_size is not None or pool != session.pool:
        changed = _resized(state, changed, amendment, pool=pool)
    return changed


def _check_waits(session: Session) -> None:
    why = None
    if session.is_external_allocation:
        why = "an external allocation holds its GPUs from the beginning; release it and allocate again"
    elif session.held_by == HELD_BY_ARRAY:
        why = f"it is a task of {session.array_id} and runs by the request of the array; change the array instead"
    elif not session.is_pending:
        why = "only a waiting session can be changed"
    if why is not None:
        raise StateConflict(f"{session.id} is {session.state}; {why}", id=session.id, state=session.state)


def _project(state: State, session: Session, amendment: SessionAmendment, caller: Caller) -> ProjectId:
    name = label(amendment.project, field="project")
    if name is None or name == session.project:
        return session.project
    project = ProjectId(name)
    if caller.role < Role.OPERATOR and caller.user != session.owner:
        raise Forbidden(f"project: only {session.owner} and operators may move {session.id} to another project")
    check_project(caller, project)
    check_project_exists(state, project)
    check_moved(state, replace(session, project=project))
    return project


def _resized(state: State, session: Session, amendment: SessionAmendment, *, pool: PoolId) -> Session:
    """The session with other amounts, kernels or pool, and without fallbacks."""
    asked = session.request
    changes: Mapping[SlotName, int] = NO_CHANGES
    if amendment.slots is not None:
        changes = amounts_of(full_names(state, amendment.slots, pool=pool, field="slots"), field="slots")
    amounts = amended_amounts(
        dict(asked.slots.finite), changes, before=per_gpu(state, session.pool), after=per_gpu(state, pool)
    )
    unlimited: dict[SlotName, Amount] = {
        slot: amount for slot, amount in asked.slots.items() if isinstance(amount, Unlimited)
    }
    size, least = asked.cluster_size, session.spec.cluster_size_min
    if amendment.cluster_size is not None:
        size = count(amendment.cluster_size, field="cluster_size", least=1, most=CLUSTER_SIZE_MAX)
    spec = replace(
        session.spec,
        slots=ResourceSlot({**unlimited, **amounts}),
        cluster_size=size,
        cluster_size_min=least if least is not None and least < size else None,
        gpu_memory_bytes=asked.gpu_memory_bytes,
        fallbacks=(),
    )
    if not amounts:
        raise InvalidRequest("slots: nothing is left of the request; give at least one amount", field="slots")
    if (spec.models or spec.gpu_memory_bytes) and not any(map(is_accelerator, amounts)):
        raise InvalidRequest("slots: a session that asks for models or GPU memory needs a GPU", field="slots")
    return replace(session, spec=spec, pool=pool, fallback_level=0)
