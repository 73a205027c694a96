"""The queue as columns: a version derived from another equals one built from scratch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.model.queue import (
    ACCOUNT,
    ESTIMATE_MS,
    IS_PLAIN,
    KIND,
    LIMIT_MS,
    PRIORITY,
    QUEUED_US,
    Queue,
    first_places,
)
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.ordering import sorted_places
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
def test_an_incrementally_changed_queue_equals_a_queue_built_anew(rows: list[PendingRow], data: st.DataObject) -> None:
    first = rows[: data.draw(st.integers(0, len(rows)))]
    left = [entry for entry in first if data.draw(st.booleans())]
    warm = Queue.of(first).changed(left=left, joined=rows[len(first) :])
    cold = Queue.of([entry for entry in rows if entry not in left])
    assert warm.rows == cold.rows
    for column in NUMBERS:
        assert warm.column(column).tolist() == cold.column(column).tolist()
    for column in (KIND, ACCOUNT):
        assert _groups(warm, column) == _groups(cold, column)
    accounts = [warm.accounts()[number] for number in warm.column(ACCOUNT)]
    assert accounts == [(entry.project, entry.owner) for entry in warm]
    assert warm.names.tolist() == [entry.session_id for entry in warm]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_first_places_agree_with_numpy_unique(numbers: list[int]) -> None:
    column = np.array(numbers, dtype=np.int64)
    assert first_places(column).tolist() == np.unique(column, return_index=True)[1].tolist()


def test_rows_are_ordered_by_submission_then_by_name_and_a_queue_is_reused() -> None:
    queue = Queue.of([row("b"), row("c", at=-1), row("a")])
    assert [entry.session_id for entry in queue] == ["c", "a", "b"]
    assert Queue.of(queue) is queue
    assert queue[1:][0] is queue[1]
    assert len(Queue.of([])) == 0


def _groups(queue: Queue, column: int) -> list[int]:
    """The group of each row, as its first row."""
    numbers = queue.column(column).tolist()
    return [numbers.index(number) for number in numbers]


@given(
    st.one_of(
        st.lists(st.integers(-3, 3), max_size=40),
        st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=9),
        st.lists(st.sampled_from([-(2**62), 0, 2**62 - 1]), max_size=9),
    )
)
def test_packed_keys_are_sorted_as_a_stable_sort_does(numbers: list[int]) -> None:
    keys = np.array(numbers, dtype=np.int64)
    assert sorted_places(keys).tolist() == np.argsort(keys, kind="stable").tolist()
