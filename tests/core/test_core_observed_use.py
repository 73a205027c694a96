"""Observed use: hours by user, from samples of all GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.observed_use import GAP_MS_MAX, HOUR_MS, GpuObservation, ObservedWeek, fair_parts

MINUTE_MS = 60_000


def gpu(*people: str, use: float | None = 50.0) -> GpuObservation:
    return GpuObservation(people=people, utilization_pct=use)


def test_gpu_time_is_split_equally_among_its_users_and_idle_when_unused() -> None:
    week = ObservedWeek().after([gpu("ann"), gpu("ann", "ben", use=0.0), gpu()], since_ms=MINUTE_MS)
    assert week.gpu_ms == 3 * MINUTE_MS
    assert (week.people["ann"].held_ms, week.people["ann"].idle_ms) == (1.5 * MINUTE_MS, 0.5 * MINUTE_MS)
    assert (week.people["ben"].held_ms, week.people["ben"].idle_ms) == (0.5 * MINUTE_MS, 0.5 * MINUTE_MS)
    assert ObservedWeek.of(week.as_facts()) == week


def test_a_gap_counts_for_at_most_two_minutes_and_unmeasured_use_is_not_idle() -> None:
    week = ObservedWeek().after([gpu("ann", use=None)], since_ms=100 * MINUTE_MS)
    assert (week.people["ann"].held_ms, week.people["ann"].idle_ms) == (GAP_MS_MAX, 0.0)
    assert ObservedWeek().after([gpu("ann")], since_ms=-5).gpu_ms == 0


def test_the_report_compares_each_person_with_an_equal_part() -> None:
    week = ObservedWeek()
    for _ in range(60):
        week = week.after([gpu("ann"), gpu("ann"), gpu("ben", use=0.0), gpu()], since_ms=MINUTE_MS)
    ann, ben = fair_parts(week)
    assert (ann.person, ann.held_h, ann.idle_h, ann.fair_h) == ("ann", pytest.approx(2), 0, pytest.approx(2))
    assert (ben.person, ben.held_h, ben.idle_h, ben.fair_h) == ("ben", pytest.approx(1), pytest.approx(1), ann.fair_h)
    assert fair_parts(ObservedWeek()) == ()


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3), max_size=8), st.integers(0, 10**7))
def test_people_together_have_no_more_gpu_time_than_there_is(people: list[list[str]], since_ms: int) -> None:
    week = ObservedWeek().after([gpu(*names, use=0.0) for names in people], since_ms=since_ms)
    assert sum(one.held_ms for one in week.people.values()) <= week.gpu_ms + 1e-6
    assert all(one.idle_ms <= one.held_ms for one in week.people.values())
    assert sum(one.fair_h for one in fair_parts(week)) <= week.gpu_ms / HOUR_MS + 1e-6
