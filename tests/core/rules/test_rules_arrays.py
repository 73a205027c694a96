"""Job arrays: the sets of their tasks, and the state of the array that follows."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.transitions import NAMED_CHARS_MAX, place_of, settled, with_task, with_tasks
from aliquot_schema.intervals import Intervals
from aliquot_schema.sessions import ArrayTasks, Session
from aliquot_schema.states import SessionState
from core_records import session

S = SessionState
PLACES = ("waiting", "active", "completed", "failed", "canceled")


def array(state: SessionState = S.QUEUED, **sets: str) -> Session:
    """`array(waiting="0-3", failed="4")`."""
    known: dict[str, Any] = {name: Intervals.parse(text) for name, text in sets.items()}
    tasks = ArrayTasks(max_parallel=3, **({"waiting": Intervals()} | known))
    return session(state, tasks=tasks)


def sets_of(found: Session) -> dict[str, str]:
    """The non-empty sets."""
    tasks = found.tasks
    assert tasks is not None
    assert tasks.max_parallel == 3
    return {name: str(getattr(tasks, name)) for name in PLACES if getattr(tasks, name)}


def test_a_task_counts_as_active_until_it_ends_and_then_by_its_final_state() -> None:
    assert [place_of(session(state)) for state in (S.RUNNING, S.QUEUED, S.COMPLETED, S.FAILED, S.CANCELED)] == [
        "active",
        "active",
        "completed",
        "failed",
        "canceled",
    ]


@pytest.mark.parametrize("place", PLACES)
def test_a_task_index_is_in_exactly_one_set(place: str) -> None:
    before = array(waiting="0-1", active="2", completed="3", failed="4", canceled="5")
    for index in range(6):
        after = sets_of(with_task(before, index, place=place))
        assert str(index) in ",".join(map(str, Intervals.parse(after[place])))
        assert sum(len(Intervals.parse(text)) for text in after.values()) == 6


def test_several_task_indices_move_together() -> None:
    before = array(waiting="0-9", active="10-12", failed="20")
    assert sets_of(with_tasks(before, Intervals.parse("3-5,11"), place="canceled")) == {
        "waiting": "0-2,6-9",
        "active": "10,12",
        "failed": "20",
        "canceled": "3-5,11",
    }
    assert sets_of(with_tasks(before, Intervals.parse("19,21"), place="failed"))["failed"] == "19-21"


def test_an_array_with_waiting_tasks_keeps_its_state() -> None:
    for state in (S.QUEUED, S.HELD, S.RUNNING):
        before = array(state, waiting="0", active="1", failed="2")
        assert settled(before, now_us=50) == before
    ended = array(S.CANCELED, canceled="0")
    assert settled(ended, now_us=50) == ended


@pytest.mark.parametrize("state", [S.QUEUED, S.HELD])
def test_an_array_is_running_when_no_task_waits(state: SessionState) -> None:
    found = settled(array(state, active="0-1", completed="2"), now_us=50)
    assert (found.state, found.started_us, found.scheduled_us) == (S.RUNNING, 50, 50)
    later = settled(found, now_us=70)
    assert later == found


@pytest.mark.parametrize(
    ("sets", "state"),
    [
        ({"completed": "0-2"}, S.COMPLETED),
        ({"completed": "0", "canceled": "1"}, S.CANCELED),
        ({"completed": "0", "canceled": "1", "failed": "2"}, S.FAILED),
    ],
)
def test_an_array_ends_with_its_last_task(sets: dict[str, str], state: SessionState) -> None:
    running = replace(array(S.RUNNING, **sets), attempt=1, started_us=3)
    found = settled(running, now_us=50)
    assert (found.state, found.ended_us) == (state, 50)
    assert (found.failure is not None) == (state is S.FAILED)


def test_the_failure_of_an_array_names_the_failed_tasks_up_to_a_length() -> None:
    few = settled(replace(array(S.RUNNING, failed="1,5-7", completed="0,2"), attempt=1), now_us=50).failure
    assert few is not None
    assert (few.code, few.message) == ("tasks_failed", "4 of 6 tasks failed: 1,5-7")
    odd = ",".join(str(index) for index in range(101, 500, 2))
    many = settled(replace(array(S.RUNNING, failed=odd), attempt=1), now_us=50).failure
    assert many is not None
    assert many.message == f"200 of 200 tasks failed: {odd[:NAMED_CHARS_MAX]}..."
    exact = ",".join(["100", *(str(index) for index in range(102, 200, 2))])
    assert len(exact) == NAMED_CHARS_MAX - 1
    found = settled(replace(array(S.RUNNING, failed=f"{exact[:-3]}1000"), attempt=1), now_us=50).failure
    assert found is not None
    assert found.message.endswith(f": {exact[:-3]}1000")


def test_only_arrays_have_tasks() -> None:
    for change in (lambda: with_task(session(), 0, place="failed"), lambda: settled(session(), now_us=1)):
        with pytest.raises(AssertionError, match="ses_1 is no array"):
            change()
    with pytest.raises(AssertionError, match="ses_1 is no array"):
        with_tasks(session(), Intervals.parse("0"), place="failed")
