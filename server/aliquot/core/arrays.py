"""Job arrays: where their tasks are, and what that means for the array."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aliquot.core import transitions
from aliquot_schema.intervals import Intervals
from aliquot_schema.sessions import ArrayTasks, Failure, Session
from aliquot_schema.states import SessionState

NAMED_CHARS_MAX: Final = 200
"""Of the indices that failed, so much is written out."""


def place_of(session: Session) -> str:
    """The set of its array that a task's index is in: `active` until it ends, and then as it ended."""
    return str(session.state) if session.is_ended else "active"


def with_task(array: Session, index: int, *, place: str) -> Session:
    """The array with one index in another of its sets: `waiting`, `active`, `completed`, `failed` or `canceled`."""
    tasks = array.tasks
    assert tasks is not None, f"{array.id} is no array"
    sets: dict[str, Intervals] = {name: indices.without(index) for name, indices in _sets(tasks).items()}
    sets[place] = sets[place].with_number(index)
    return _with(array, tasks, sets)


def with_tasks(array: Session, indices: Intervals, *, place: str) -> Session:
    """As `with_task`, for many."""
    tasks = array.tasks
    assert tasks is not None, f"{array.id} is no array"
    moved = frozenset(indices)
    sets = {name: Intervals.of(index for index in known if index not in moved) for name, known in _sets(tasks).items()}
    sets[place] = Intervals.joined((*sets[place].spans, *indices.spans))
    return _with(array, tasks, sets)


def _with(array: Session, tasks: ArrayTasks, sets: Mapping[str, Intervals]) -> Session:
    return replace(array, tasks=ArrayTasks(max_parallel=tasks.max_parallel, **sets))


def settled(array: Session, *, now_us: int) -> Session:
    """The array in the state that its tasks make: it runs when none waits, and ends with the last of them."""
    tasks = array.tasks
    assert tasks is not None, f"{array.id} is no array"
    if array.is_ended or tasks.waiting:
        return array
    if tasks.active:
        return _running(array, now_us=now_us)
    if tasks.failed:
        return transitions.fail(array, _failure(tasks), now_us=now_us)
    if tasks.canceled:
        return transitions.cancel(array, now_us=now_us)
    return transitions.finish(array, (), now_us=now_us)


def _running(array: Session, *, now_us: int) -> Session:
    if array.state is SessionState.RUNNING:
        return array
    free = transitions.let_go(array) if array.state is SessionState.HELD else array
    return replace(transitions.start(free, now_us=now_us), scheduled_us=now_us)


def _failure(tasks: ArrayTasks) -> Failure:
    which = str(tasks.failed)
    named = which if len(which) <= NAMED_CHARS_MAX else f"{which[:NAMED_CHARS_MAX]}..."
    total = sum(len(indices) for indices in _sets(tasks).values())
    return Failure(code="tasks_failed", message=f"{len(tasks.failed)} of {total} tasks failed: {named}")


def _sets(tasks: ArrayTasks) -> dict[str, Intervals]:
    return {
        "waiting": tasks.waiting,
        "active": tasks.active,
        "completed": tasks.completed,
        "failed": tasks.failed,
        "canceled": tasks.canceled,
    }
