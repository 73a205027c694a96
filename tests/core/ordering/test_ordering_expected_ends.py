"""Expected ends: overdue sessions are expected to run on, and steps are sorted by expected end."""

import pytest
from msgspec.structs import replace

from aliquot.core.model.snapshot import RunningRow
from aliquot.core.scheduler.expected_ends import ExpectedEnds, PlannedEnds, expected_end_us
from allocation_devices import gpus
from core_cluster import NOW_US, on
from ordering_scenes import SECOND_US, runs

EIGHT = on("x", gpus(8))


def ending(name: str, ends_in_s: int, *, gpu: int = 0) -> RunningRow:
    return runs(name, EIGHT, {"cuda.device": {f"cuda{gpu}": 1}}, ends_in_s=ends_in_s)


@pytest.mark.parametrize(
    ("ends_in_s", "is_leaving", "expected_in_s"),
    [
        (90, False, 90),
        (1, False, 1),
        (0, False, 60),
        (-1, False, 60),
        (-60, False, 60),
        (-61, False, 61),
        (-86_400, False, 86_400),
        (5, True, 5),
        (0, True, 60),
        (-61, True, 60),
        (-86_400, True, 60),
    ],
)
def test_expected_ends_of_running_overdue_and_leaving_sessions(
    ends_in_s: int, is_leaving: bool, expected_in_s: int
) -> None:
    held = replace(ending("a", ends_in_s), is_leaving=is_leaving)
    expected_us = NOW_US + expected_in_s * SECOND_US
    assert expected_end_us(held, now_us=NOW_US) == expected_us
    endings = ExpectedEnds(PlannedEnds([held]), now_us=NOW_US)
    assert [endings.release(step).at_us for step in range(len(endings))] == [expected_us]


def test_an_expected_end_is_exact_to_the_microsecond() -> None:
    held = replace(ending("a", 0), ends_us=NOW_US + 1)
    assert expected_end_us(held, now_us=NOW_US) == NOW_US + 1
    assert expected_end_us(held, now_us=NOW_US + 1) == NOW_US + 1 + 60 * SECOND_US
    assert expected_end_us(held, now_us=NOW_US + 2 + 60 * SECOND_US) == NOW_US + 3 + 120 * SECOND_US


def test_release_steps_are_ordered_by_expected_and_not_by_planned_ends() -> None:
    ends = PlannedEnds(
        [
            ending("day-over", -86_400, gpu=0),
            ending("hour-over", -3600, gpu=1),
            ending("just-over", -1, gpu=2),
            ending("in-a-minute", 60, gpu=3),
            ending("soon", 10, gpu=4),
            ending("in-two-hours", 7200, gpu=5),
        ]
    )
    endings = ExpectedEnds(ends, now_us=NOW_US)
    releases = [endings.release(step) for step in range(len(endings))]
    steps = [(release.at_us, {str(row.session_id) for row in release.rows}) for release in releases]
    minute = {"soon", "just-over", "in-a-minute"}
    assert steps == [
        (NOW_US + 10 * SECOND_US, {"soon"}),
        (NOW_US + 60 * SECOND_US, minute),
        (NOW_US + 3600 * SECOND_US, {*minute, "hour-over"}),
        (NOW_US + 7200 * SECOND_US, {*minute, "hour-over", "in-two-hours"}),
        (NOW_US + 86_400 * SECOND_US, {*minute, "hour-over", "in-two-hours", "day-over"}),
    ]
    assert [endings.first_step_releasing(milli) for milli in (1, 1000, 1001, 3000, 4000, 5000, 6000, 6001)] == [
        0,
        0,
        1,
        1,
        2,
        3,
        4,
        5,
    ]


def test_planned_ends_can_be_reused_at_a_later_time() -> None:
    ends = PlannedEnds([ending("a", 10), ending("b", 20, gpu=1)])
    assert [ExpectedEnds(ends, now_us=NOW_US).release(step).at_us for step in (0, 1)] == [
        NOW_US + 10 * SECOND_US,
        NOW_US + 20 * SECOND_US,
    ]
    late = ExpectedEnds(ends, now_us=NOW_US + 100 * SECOND_US)
    assert [str(gone.session_id) for gone in late.release(0).rows] == ["b"]
    assert [late.release(step).at_us for step in (0, 1)] == [NOW_US + 180 * SECOND_US, NOW_US + 190 * SECOND_US]


def test_without_running_sessions_there_are_no_release_steps() -> None:
    endings = ExpectedEnds(PlannedEnds([]), now_us=NOW_US)
    assert (len(endings), endings.first_step_releasing(0), endings.first_step_releasing(1)) == (0, 0, 0)
