"""A preempted session starts after the one it made room for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.decide import behind_preemptors
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState


def queue_of(count: int) -> Queue:
    """Sessions 0, 1, ... in this order."""
    return Queue.of(
        PendingRow(
            session_id=name(number),
            version=1,
            state=SessionState.QUEUED,
            request=(),
            cluster_size=1,
            gpu_memory_bytes=None,
            priority=Priority.NORMAL,
            queued_us=number,
            not_before_us=None,
            excluded_agents=(),
            depends_on=(),
        )
        for number in range(count)
    )


def name(number: int) -> SessionId:
    return SessionId(f"ses_{number:03}")


def line_of(line: list[int], yields: dict[int, int]) -> list[int]:
    """The order after all have yielded."""
    wanted = {position: name(first) for position, first in yields.items()}
    found: list[int] = behind_preemptors(np.array(line, dtype=np.int64), wanted, queue=queue_of(10)).tolist()
    return found


@pytest.mark.parametrize(
    ("line", "yields", "expected"),
    [
        ([0, 1, 2], {}, [0, 1, 2]),
        ([0, 1, 2, 3], {0: 2}, [1, 2, 0, 3]),
        ([0, 1, 2, 3], {0: 3, 1: 3}, [2, 3, 0, 1]),
        ([3, 0, 1], {0: 3}, [3, 0, 1]),
        ([0, 1, 2], {0: 1, 1: 2}, [2, 1, 0]),
        ([0, 1, 2], {0: 9}, [0, 1, 2]),
        ([0, 1, 2], {0: 1, 1: 0}, [2, 0, 1]),
    ],
    ids=["nobody", "behind its one", "both in their order", "behind already", "a chain", "gone", "each other"],
)
def test_a_preempted_session_stands_behind_the_session_that_preempted_it(
    line: list[int], yields: dict[int, int], expected: list[int]
) -> None:
    assert line_of(line, yields) == expected


@given(st.permutations(range(10)), st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=6))
def test_no_session_is_lost_from_the_line_and_the_others_keep_their_order(
    line: list[int], yields: dict[int, int]
) -> None:
    found = line_of(line, yields)
    assert sorted(found) == sorted(line)
    others = [position for position in line if position not in yields]
    assert [position for position in found if position not in yields] == others
    for position, first in yields.items():
        if first not in yields:
            assert found.index(first) < found.index(position)
