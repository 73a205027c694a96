"""Changes of job arrays and of their tasks: cancel all or one, and run some again."""

from collections.abc import Container
from dataclasses import replace

from aliquot.core import arrays, transitions
from aliquot.service.draft import Draft
from aliquot.service.kernel_reports import stop_kernels
from aliquot.service.outside_leases import release
from aliquot_schema.errors import StateConflict
from aliquot_schema.ids import SessionId, task_id
from aliquot_schema.intervals import Intervals
from aliquot_schema.leases import EndEvidence, Kernel
from aliquot_schema.sessions import HELD_BY_ARRAY, NO_INDICES, ArrayTasks, Session
from aliquot_schema.states import KernelState, SessionState


def cancel(draft: Draft, session: Session, *, now_us: int) -> Session:
    """End a session, and all tasks of an array; returns it."""
    if session.tasks is not None:
        return _cancel_array(draft, session, now_us=now_us)
    canceled = draft.put(transitions.cancel(session, now_us=now_us), "canceled")
    stop_kernels(draft, _left(draft, canceled), now_us=now_us)
    release(draft, canceled, EndEvidence.GIVEN_BACK, now_us=now_us)
    return canceled


def cancel_waiting(draft: Draft, array: Session, index: int, *, now_us: int) -> Session:
    """Cancel a task of an array that has no session of its own; returns the array.

    Canceling it twice is no error.
    """
    assert array.tasks is not None, f"{array.id} is no array"
    if index in array.tasks.canceled:
        return array
    changed = arrays.settled(arrays.with_task(array, index, place="canceled"), now_us=now_us)
    return draft.put(changed, str(changed.state) if changed.is_ended else "task_canceled")


def run_again(draft: Draft, session: Session, *, looked_up: Container[SessionId], now_us: int) -> Session:
    """Have a session run once more after its end; of an array, the tasks that failed or were canceled, else all.

    Args:
        looked_up: tasks that are in memory if they ever were sessions of their own.
    Raises:
        StateConflict: it has not ended, its processes are not gone yet, or it changed while its tasks were read.
    """
    _check_ended(draft, session)
    if session.tasks is not None:
        return _run_tasks_again(draft, session, _to_retry(session.tasks), looked_up, now_us=now_us)
    array = None if session.array_id is None else draft.session(session.array_id)
    if array is None or session.array_index is None:
        return draft.put(transitions.run_again(session, now_us=now_us), "retried")
    again = _run_task_again(draft, session, array, now_us=now_us)
    own = Intervals.of([session.array_index])
    _put_back(draft, array, own, own=own, now_us=now_us)
    return again


def run_index_again(draft: Draft, array: Session, index: int, *, now_us: int) -> Session:
    """Have one canceled task of an array, which never had a session of its own, wait again; returns the array.

    Raises:
        StateConflict: the task waits.
    """
    assert array.tasks is not None, f"{array.id} is no array"
    if index not in array.tasks.canceled:
        name = task_id(array.id, index=index)
        raise StateConflict(f"{name} waits for its first start; there is nothing to retry", id=name, state="queued")
    return _put_back(draft, array, Intervals.of([index]), now_us=now_us)


def to_retry(array: Session) -> Intervals:
    """The tasks of an array that has ended which a retry runs again."""
    return Intervals() if array.tasks is None or not array.is_ended else _to_retry(array.tasks)


def _cancel_array(draft: Draft, array: Session, *, now_us: int) -> Session:
    assert array.tasks is not None, f"{array.id} is no array"
    idle = arrays.with_tasks(array, array.tasks.waiting, place="canceled")
    draft.put(transitions.cancel(idle, now_us=now_us), "canceled")
    held = array.tasks.waiting if _take_turns(array) else NO_INDICES
    for index in (*held, *array.tasks.active):
        task = draft.session(task_id(array.id, index=index))
        if task is not None and not task.is_ended:
            cancel(draft, task, now_us=now_us)
    return draft.session(array.id) or array


def _to_retry(tasks: ArrayTasks) -> Intervals:
    return Intervals.joined((*tasks.failed.spans, *tasks.canceled.spans)) or tasks.completed


def _run_tasks_again(
    draft: Draft, array: Session, indices: Intervals, looked_up: Container[SessionId], *, now_us: int
) -> Session:
    """Tasks that ended as sessions wait as these; the others, as indices of their array."""
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
    return _put_back(draft, array, indices, own=Intervals.of(sessions), now_us=now_us)


def _run_task_again(draft: Draft, task: Session, array: Session, *, now_us: int) -> Session:
    """Where tasks take turns, one that ran before waits for its turn as the others do."""
    again = transitions.run_again(task, now_us=now_us)
    return draft.put(transitions.hold(again, HELD_BY_ARRAY) if _take_turns(array) else again, "retried")


def _take_turns(array: Session) -> bool:
    return array.tasks is not None and array.tasks.max_parallel is not None


def _put_back(draft: Draft, array: Session, indices: Intervals, *, own: Intervals = NO_INDICES, now_us: int) -> Session:
    """Have tasks of an array run again; `own` of them have a session of their own, which is queued by now."""
    active = NO_INDICES if _take_turns(array) else own
    waiting = Intervals.of(index for index in indices if index not in active)
    back = transitions.run_again(array, now_us=now_us) if array.is_ended else array
    back = arrays.with_tasks(arrays.with_tasks(back, waiting, place="waiting"), active, place="active")
    if back.state is SessionState.RUNNING and waiting:
        back = replace(back, state=SessionState.QUEUED, scheduled_us=None, started_us=None)
    return draft.put(arrays.settled(back, now_us=now_us), "retried")


def _left(draft: Draft, session: Session) -> list[Kernel]:
    return [kernel for kernel in draft.kernels_in(session) if kernel.state is not KernelState.EXITED]


def _check_ended(draft: Draft, session: Session) -> None:
    if not session.is_ended:
        raise StateConflict(
            f"{session.id} is {session.state}; only what has ended can be retried", id=session.id, state=session.state
        )
    if _left(draft, session):
        raise StateConflict(
            f"{session.id} is {session.state}, and its processes are not gone yet; try again when it holds no devices",
            id=session.id,
            state=session.state,
        )
