"""Arrival history: past weeks repeated at the same hours of the week."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.foresight.arrivals import DAY_US, HOUR_US, KEPT_US, WEEK_US, ArrivalHistory, Arrivals
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.prediction import Workload
from aliquot_schema.ids import SessionId, UserId, task_id
from aliquot_schema.intervals import Intervals
from core_cluster import row
from core_effort import examples

ANN = UserId("ann")
SOURCE_MS = 60_000
DRAWN_US = 77_000_000


def history(*hours: float, ended: bool = True, **more: Any) -> ArrivalHistory:
    """Sessions submitted at these hours."""
    found = ArrivalHistory()
    for number, hour in enumerate(hours):
        found.learn(row(f"s{number}", at=int(hour * HOUR_US), **more))
        if ended:
            found.ended(SessionId(f"s{number}"), run_ms=SOURCE_MS)
    return found


def future(found: ArrivalHistory, now_us: int, *, horizon_us: int = WEEK_US, sample: int = 0) -> Arrivals:
    return found.futures(now_us, horizon_us=horizon_us, drawn_us=lambda _, __: DRAWN_US, seed=1).of(sample)


def hours(arrivals: Arrivals, now_us: int) -> list[float]:
    return [(one.at_us - now_us) / HOUR_US for one in arrivals.arrivals]


def test_nothing_arrives_before_a_day_of_history() -> None:
    assert list(future(ArrivalHistory(), 0).arrivals) == []
    assert list(future(history(0, 12), DAY_US - 1).arrivals) == []


def test_with_days_of_history_a_day_is_repeated() -> None:
    found = future(history(0, 6, 26), DAY_US + 2 * HOUR_US, horizon_us=3 * DAY_US)
    assert hours(found, DAY_US + 2 * HOUR_US) == [4, 28, 52]


def test_with_a_week_of_history_arrivals_repeat_at_the_same_hours_of_the_week() -> None:
    now_us = WEEK_US
    found = future(history(0, 5, 100), now_us)
    assert hours(found, now_us) == [0, 5, 100]
    assert all(one.row.queued_us == one.at_us for one in found.arrivals)
    assert {one.run_us for one in found.arrivals} == {SOURCE_MS * 1000}


def test_each_sample_takes_one_of_the_last_four_weeks() -> None:
    found = history(*(week * 168 + week for week in range(6)))
    now_us = 6 * WEEK_US
    taken = {tuple(hours(future(found, now_us, sample=sample), now_us)) for sample in range(64)}
    assert taken == {(2.0,), (3.0,), (4.0,), (5.0,)}


def test_nothing_arrives_past_the_horizon() -> None:
    assert hours(future(history(0, 5, 100), WEEK_US, horizon_us=6 * HOUR_US), WEEK_US) == [0, 5]


def test_sessions_that_have_not_ended_get_a_drawn_run_time() -> None:
    found = history(0, 1, 2, ended=False)
    found.ended(SessionId("s1"), run_ms=SOURCE_MS)
    assert [one.run_us for one in future(found, WEEK_US).arrivals] == [DRAWN_US, SOURCE_MS * 1000, DRAWN_US]


def test_cancellations_come_as_they_were_recorded() -> None:
    found = history(0, 1, ended=False)
    found.cancelled(SessionId("s1"), at_us=3 * HOUR_US)
    made = future(found, WEEK_US)
    (name,) = made.cancels_us
    assert name == made.arrivals[1].row.session_id
    assert made.cancels_us[name] == WEEK_US + 3 * HOUR_US


def test_a_job_array_arrives_task_by_task_and_without_conditions() -> None:
    found = history(0, tasks=Intervals.of(range(3)), not_before_us=5, tasks_startable=1)
    made = future(found, WEEK_US).arrivals
    assert len({one.row.session_id for one in made}) == len(made) == 3
    assert {(one.row.tasks, one.row.not_before_us) for one in made} == {(None, None)}


def test_each_task_of_a_job_array_has_its_own_run_time_and_cancellation() -> None:
    """The first ran, the second has not ended, and the others were canceled: the third while it ran."""
    array = SessionId("ses_a")
    found = ArrivalHistory()
    found.learn(row(array, at=0, tasks=Intervals.parse("2-4,7"), tasks_startable=4))
    for index, run_ms in ((2, 1_000), (4, 2_000)):
        found.ended(task_id(array, index=index), run_ms=run_ms)
    found.ended(task_id(array, index=5), run_ms=1)
    found.cancelled(array, at_us=HOUR_US, tasks=Intervals.parse("4,7"))
    drawn = {task_id(array, index=index): index for index in (2, 3, 4, 7)}
    made = found.futures(WEEK_US, horizon_us=WEEK_US, drawn_us=lambda one, _: drawn[one.session_id], seed=1).of(0)
    assert [one.run_us for one in made.arrivals] == [1_000_000, 3, 2_000_000, 7]
    assert made.cancels_us == {made.arrivals[3].row.session_id: WEEK_US + HOUR_US}


def test_the_arrival_history_keeps_sessions_until_they_are_old() -> None:
    found = history(0)
    assert found.row(SessionId("s0")) is not None
    found.learn(row("new", at=KEPT_US + 2 * DAY_US))
    assert found.row(SessionId("s0")) is None
    found.ended(SessionId("s0"), run_ms=1)
    found.cancelled(SessionId("s0"), at_us=1)


def test_workloads_of_arrivals_are_known_until_they_are_old() -> None:
    workload = Workload(user=ANN, program=None, milli=1000, limit_ms=None)
    found = history(0, 1, workload=workload)
    assert found.workloads() == (workload,)
    found.learn(row("new", at=KEPT_US + 2 * DAY_US))
    assert found.workloads() == ()


@given(
    offsets=st.lists(st.integers(0, 5 * WEEK_US), min_size=1, max_size=30),
    later_us=st.integers(0, WEEK_US),
    horizon_us=st.integers(1, WEEK_US),
    sample=st.integers(0, 5),
)
@examples(100)
def test_arrivals_are_sorted_within_the_horizon_and_at_the_hour_of_their_source(
    offsets: list[int], later_us: int, horizon_us: int, sample: int
) -> None:
    found = ArrivalHistory()
    rows: dict[str, PendingRow] = {}
    for number, at_us in enumerate(sorted(offsets)):
        rows[f"s{number}"] = row(f"s{number}", at=at_us)
        found.learn(rows[f"s{number}"])
    now_us = max(offsets) + later_us
    made = future(found, now_us, horizon_us=horizon_us, sample=sample).arrivals
    assert [one.at_us for one in made] == sorted(one.at_us for one in made)
    assert all(now_us <= one.at_us < now_us + horizon_us for one in made)
    for one in made:
        source = rows[one.row.session_id.partition("+")[0]]
        shift_us = one.at_us - source.queued_us
        assert shift_us % DAY_US == 0
        assert source.queued_us < now_us
        if now_us - min(offsets) >= WEEK_US:
            assert shift_us % WEEK_US == 0


@pytest.mark.parametrize("sample", range(3))
def test_the_same_seed_gives_the_same_arrivals(sample: int) -> None:
    found = history(*range(0, 168 * 4, 7))
    now_us = 4 * WEEK_US
    one, again = (future(found, now_us, sample=sample) for _ in range(2))
    assert list(one.arrivals) == list(again.arrivals) == one.arrivals[:]
    with pytest.raises(IndexError):
        one.arrivals[len(one.arrivals)]
