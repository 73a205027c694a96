"""Job arrays: cancels and retries sessions, arrays and single tasks.

A task has a session of its own from its first start on; before, it is an index in its array.
"""

from collections.abc import Container

from msgspec.structs import replace

from aliquot.core import transitions
from aliquot.service.lifecycle.external_leases import release
from aliquot.service.lifecycle.kernel_reports import stop_kernels
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import StateConflict
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.intervals import Intervals
from aliquot_schema.resources.leases import EndEvidence, Kernel
from aliquot_schema.sessions import HELD_BY_ARRAY, NO_INDICES, ArrayTasks, Session
from aliquot_schema.states import KernelState, SessionState


def cancel(draft: UnitOfWork, session: Session, *, now_us: int) -> Session:
    """Cancel a session, with all tasks of an array; returns it."""
    if session.tasks is not None:
        return _cancel_array(draft, session, now_us=now_us)
    canceled = draft.put(transitions.cancel(session, now_us=now_us), "canceled")
    stop_kernels(draft, _unfinished(draft, canceled), now_us=now_us)
    release(draft, canceled, EndEvidence.GIVEN_BACK, now_us=now_us)
    return canceled


def cancel_waiting(draft: UnitOfWork, array: Session, index: int, *, now_us: int) -> Session:
    """Cancel a task without a session of its own; returns the array.

    No effect when it is canceled already.
    """
    assert array.tasks is not None, f"{array.id} is no array"
    if index in array.tasks.canceled:
        return array
    changed = transitions.settled(transitions.with_task(array, index, place="canceled"), now_us=now_us)
    return draft.put(changed, str(changed.state) if changed.is_ended else "task_canceled")


def run_again(
    draft: UnitOfWork,
    session: Session,
    *,
    looked_up: Container[SessionId],
    now_us: int,
    from_checkpoint: bool = False,
) -> Session:
    """Retry a session that has ended; of an array, its failed and canceled tasks, or all when there are none.

    Args:
        looked_up: tasks already read from the store; those with a session of their own are in memory.
        from_checkpoint: see `transitions.run_again`; not for arrays.
    Raises:
        StateConflict: it has not ended, its processes have not exited, or it changed while its tasks were read.
    """
    _check_ended(draft, session)
    if session.tasks is not None:
        return _run_tasks_again(draft, session, _to_retry(session.tasks), looked_up, now_us=now_us)
    array = None if session.array_id is None else draft.session(session.array_id)
    if array is None or session.array_index is None:
        again = transitions.run_again(session, now_us=now_us, from_checkpoint=from_checkpoint)
        return draft.put(again, "retried")
    again = _run_task_again(draft, session, array, now_us=now_us, from_checkpoint=from_checkpoint)
    own = Intervals.of([session.array_index])
    _requeue_tasks(draft, array, own, own=own, now_us=now_us)
    return again


def run_index_again(draft: UnitOfWork, array: Session, index: int, *, now_us: int) -> Session:
    """Queue a canceled task without a session of its own again; returns the array.

    Raises:
        StateConflict: the task is queued already.
    """
    assert array.tasks is not None, f"{array.id} is no array"
    if index not in array.tasks.canceled:
        name = task_id(array.id, index=index)
        raise StateConflict(f"{name} is queued for its first start; there is nothing to retry", id=name, state="queued")
    return _requeue_tasks(draft, array, Intervals.of([index]), now_us=now_us)


def to_retry(array: Session) -> Intervals:
    """Tasks that a retry of an ended array runs again; empty before its end."""
    return Intervals() if array.tasks is None or not array.is_ended else _to_retry(array.tasks)


def _cancel_array(draft: UnitOfWork, array: Session, *, now_us: int) -> Session:
    assert array.tasks is not None, f"{array.id} is no array"
    idle = transitions.with_tasks(array, array.tasks.waiting, place="canceled")
    draft.put(transitions.cancel(idle, now_us=now_us), "canceled")
    held = array.tasks.waiting if _is_limited(array) else NO_INDICES
    for index in (*held, *array.tasks.active):
        task = draft.session(task_id(array.id, index=index))
        if task is not None and not task.is_ended:
            cancel(draft, task, now_us=now_us)
    return draft.session(array.id) or array


def _to_retry(tasks: ArrayTasks) -> Intervals:
    return Intervals.joined((*tasks.failed.spans, *tasks.canceled.spans)) or tasks.completed


def _run_tasks_again(
    draft: UnitOfWork, array: Session, indices: Intervals, looked_up: Container[SessionId], *, now_us: int
) -> Session:
    """Retry tasks of an array: those with sessions of their own as sessions, the others as indices."""
    sessions = []
    for index in indices:
        name = task_id(array.id, index=index)
        task = draft.session(name)
        if task is None and name not in looked_up:
            raise StateConflict(f"{array.id} changed meanwhile; try again", id=array.id, state=array.state)
        if task is not None:
            _check_ended(draft, task)
            _run_task_again(draft, task, array, now_us=now_us)
            sessions.append(index)
    return _requeue_tasks(draft, array, indices, own=Intervals.of(sessions), now_us=now_us)


def _run_task_again(
    draft: UnitOfWork, task: Session, array: Session, *, now_us: int, from_checkpoint: bool = False
) -> Session:
    """Retry a task's session; with a parallelism limit it is held until the array releases it."""
    again = transitions.run_again(task, now_us=now_us, from_checkpoint=from_checkpoint)
    return draft.put(transitions.hold(again, HELD_BY_ARRAY) if _is_limited(array) else again, "retried")


def _is_limited(array: Session) -> bool:
    return array.tasks is not None and array.tasks.max_parallel is not None


def _requeue_tasks(
    draft: UnitOfWork, array: Session, indices: Intervals, *, own: Intervals = NO_INDICES, now_us: int
) -> Session:
    """Queue tasks of an array again; `own` of them have a session, which is queued already."""
    active = NO_INDICES if _is_limited(array) else own
    waiting = Intervals.of(index for index in indices if index not in active)
    back = transitions.run_again(array, now_us=now_us) if array.is_ended else array
    back = transitions.with_tasks(transitions.with_tasks(back, waiting, place="waiting"), active, place="active")
    if back.state is SessionState.RUNNING and waiting:
        back = replace(back, state=SessionState.QUEUED)
    return draft.put(transitions.settled(back, now_us=now_us), "retried")


def _unfinished(draft: UnitOfWork, session: Session) -> list[Kernel]:
    return [kernel for kernel in draft.kernels_in(session) if kernel.state is not KernelState.EXITED]


def _check_ended(draft: UnitOfWork, session: Session) -> None:
    if not session.is_ended:
        raise StateConflict(
            f"{session.id} is {session.state}; only ended sessions can be retried", id=session.id, state=session.state
        )
    if _unfinished(draft, session):
        raise StateConflict(
            f"{session.id} is {session.state}, and its processes have not exited; try again when it holds no devices",
            id=session.id,
            state=session.state,
        )
