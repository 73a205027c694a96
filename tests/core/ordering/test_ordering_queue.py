"""The queue as columns: a version made from another is worth the same as one made anew."""

from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.model.queue import ESTIMATE_MS, IS_PLAIN, KIND, LIMIT_MS, OWNER, PRIORITY, PROJECT, QUEUED_US, Queue
from aliquot.core.model.snapshot import PendingRow
from aliquot_schema.ids import UserId
from aliquot_schema.states import SessionState
from core_cluster import row

NUMBERS = (QUEUED_US, PRIORITY, ESTIMATE_MS, LIMIT_MS, IS_PLAIN)


@st.composite
def row_sets(draw: st.DrawFn) -> list[PendingRow]:
    """Up to nine rows of few kinds and owners."""
    return [
        row(
            f"s{number}",
            at=draw(st.integers(0, 3)),
            cuda_device=draw(st.sampled_from("12")),
            owner=UserId(draw(st.sampled_from("xyz"))),
            estimate_ms=draw(st.sampled_from([None, 5, 7])),
            state=draw(st.sampled_from([SessionState.QUEUED, SessionState.HELD])),
        )
        for number in draw(st.lists(st.integers(0, 30), max_size=9, unique=True))
    ]


@given(row_sets(), st.data())
def test_a_changed_queue_is_the_queue_of_the_rows_that_are_left(rows: list[PendingRow], data: st.DataObject) -> None:
    first = rows[: data.draw(st.integers(0, len(rows)))]
    left = [entry for entry in first if data.draw(st.booleans())]
    warm = Queue.of(first).changed(left=left, joined=rows[len(first) :])
    cold = Queue.of([entry for entry in rows if entry not in left])
    assert warm.rows == cold.rows
    for column in NUMBERS:
        assert warm.column(column).tolist() == cold.column(column).tolist()
    for column in (KIND, OWNER, PROJECT):
        assert _groups(warm, column) == _groups(cold, column)
    assert [warm.owners()[number] for number in warm.column(OWNER)] == [entry.owner for entry in warm]
    assert [warm.projects()[number] for number in warm.column(PROJECT)] == [entry.project for entry in warm]


def test_rows_stand_by_submission_then_by_name_and_a_queue_is_not_made_twice() -> None:
    queue = Queue.of([row("b"), row("c", at=-1), row("a")])
    assert [entry.session_id for entry in queue] == ["c", "a", "b"]
    assert Queue.of(queue) is queue
    assert queue[1:][0] is queue[1]
    assert len(Queue.of([])) == 0


def _groups(queue: Queue, column: int) -> list[int]:
    """Each row's group by the first row that is in it."""
    numbers = queue.column(column).tolist()
    return [numbers.index(number) for number in numbers]
