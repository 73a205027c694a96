"""Verdicts as columns: equal to a table, and reused for a queue that has grown."""

import numpy as np
import pytest

from aliquot.core.model.queue import WaitingVerdicts
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Reason, Verdict

NAMES = ["a", "b", "c", "d"]
HELD, FRAGMENTED = Verdict(reason=Reason.HELD), Verdict(reason=Reason.FRAGMENTED)


def objects(*values: object) -> "np.ndarray[tuple[int], np.dtype[np.object_]]":
    made = np.empty(len(values), dtype=np.object_)
    made[:] = values
    return made


@pytest.fixture
def verdicts() -> WaitingVerdicts:
    """`b` started; `d` is ahead of `a`."""
    return WaitingVerdicts(objects(*NAMES), np.array([3, 0, 2]), objects(HELD, FRAGMENTED, HELD))


def test_waiting_verdicts_are_a_mapping_in_queue_order(verdicts: WaitingVerdicts) -> None:
    assert list(verdicts) == list(verdicts.keys()) == ["d", "a", "c"]
    assert list(verdicts.values()) == [HELD, FRAGMENTED, HELD]
    assert (len(verdicts), verdicts.get(SessionId("b")), verdicts[SessionId("a")]) == (3, None, FRAGMENTED)
    assert verdicts == dict(verdicts.items()) == {"a": FRAGMENTED, "c": HELD, "d": HELD}


@pytest.mark.parametrize(
    ("queue", "found"),
    [
        (NAMES, [FRAGMENTED, None, HELD, HELD]),
        ([*NAMES, "e"], [FRAGMENTED, None, HELD, HELD, None]),
        (["a", "c", "d"], None),
        (["a", "c", "d", "e"], None),
    ],
)
def test_verdicts_are_found_by_row_for_a_queue_with_the_same_beginning(
    verdicts: WaitingVerdicts, queue: list[str], found: list[Verdict | None] | None
) -> None:
    assert verdicts.by_row(objects(*queue)) == found
