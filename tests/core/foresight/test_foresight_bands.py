"""Bands: quantiles of samples, and their correction by outcomes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.foresight.bands import (
    BAND_MAX_US,
    OFFSET_MAX,
    OFFSET_MIN,
    SECOND_US,
    STEP_MAX,
    STEP_MIN,
    WEEK_US,
    Band,
    BandCorrection,
    HourTable,
    PoolCorrection,
    band_of,
    hazen,
)
from aliquot.core.placement.scoreboard import split_mix_64
from aliquot_schema.sessions import DEFAULT_POOL
from core_effort import examples

HOUR_US = 3600 * SECOND_US
RAW = Band(HOUR_US, 2 * HOUR_US, 4 * HOUR_US)
waits = st.integers(0, 10 * 86_400 * SECOND_US)


@given(values=st.lists(waits, min_size=1, max_size=70), tenths=st.integers(0, 10))
@examples(200)
def test_quantiles_equal_the_hazen_definition(values: list[int], tenths: int) -> None:
    expected = float(np.quantile(np.array(values, dtype=np.float64), tenths / 10, method="hazen"))
    assert hazen(sorted(values), tenths) == pytest.approx(expected, abs=1.01, rel=1e-9)


@given(values=st.lists(waits, min_size=1, max_size=40), by_us=waits)
@examples(50)
def test_a_band_of_samples_is_ordered_and_shifts_with_them(values: list[int], by_us: int) -> None:
    band = band_of(values)
    assert min(values) <= band.p10 <= band.p50 <= band.p90 <= max(values)
    assert band.later(by_us) == band_of([value + by_us for value in values])


def test_an_outcome_within_a_second_of_the_band_counts_as_inside() -> None:
    band = Band(10 * SECOND_US, 20 * SECOND_US, 30 * SECOND_US)
    assert [band.contains(second * SECOND_US) for second in (8, 9, 20, 31, 32)] == [False, True, True, True, False]


def test_a_new_pool_shows_a_band_with_an_upper_end_a_third_longer() -> None:
    shown = BandCorrection().corrected(RAW, pool=DEFAULT_POOL)
    assert shown.p10 == RAW.p10
    assert RAW.p50 < shown.p50 < RAW.p50 * 1.1
    assert (shown.p90 + 60 * SECOND_US) / (RAW.p90 + 60 * SECOND_US) == pytest.approx(np.exp(0.3))


def test_a_miss_above_widens_nine_times_as_much_as_a_hit_narrows() -> None:
    missed, hit = BandCorrection(), BandCorrection()
    for correction, wait_us in ((missed, 100 * HOUR_US), (hit, 2 * HOUR_US)):
        correction.resolved(wait_us, RAW, pool=DEFAULT_POOL, at_us=0, was_overdue=False)
    assert missed.offsets[DEFAULT_POOL].upper - PoolCorrection().upper == STEP_MAX * 9 // 10
    assert hit.offsets[DEFAULT_POOL].upper - PoolCorrection().upper == -STEP_MAX // 10
    assert missed.offsets[DEFAULT_POOL].lower == hit.offsets[DEFAULT_POOL].lower == -STEP_MAX // 10


def test_a_session_that_waits_past_its_band_is_an_immediate_miss_and_counted_once() -> None:
    late, at_start = BandCorrection(), BandCorrection()
    late.overdue(pool=DEFAULT_POOL, at_us=0)
    upper = late.offsets[DEFAULT_POOL].upper
    assert upper - PoolCorrection().upper == STEP_MAX * 9 // 10
    late.resolved(100 * HOUR_US, RAW, pool=DEFAULT_POOL, at_us=1, was_overdue=True)
    assert late.offsets[DEFAULT_POOL].upper == upper
    at_start.resolved(0, RAW, pool=DEFAULT_POOL, at_us=1, was_overdue=False)
    assert at_start.offsets[DEFAULT_POOL].lower == STEP_MAX * 9 // 10


@pytest.mark.parametrize(("wait_us", "end"), [(100 * HOUR_US, RAW.p90), (0, RAW.p10)])
def test_the_median_moves_at_most_half_of_the_way(wait_us: int, end: int) -> None:
    correction = BandCorrection()
    for number in range(200):
        correction.resolved(wait_us, RAW, pool=DEFAULT_POOL, at_us=number * WEEK_US, was_overdue=False)
    shown = correction.corrected(RAW, pool=DEFAULT_POOL)
    half = ((RAW.p50 + 60 * SECOND_US) * (end + 60 * SECOND_US)) ** 0.5 - 60 * SECOND_US
    assert shown.p50 == pytest.approx(half, rel=1e-6)


def test_the_median_converges_to_half_of_the_outcomes_above_it() -> None:
    correction = BandCorrection()
    above = []
    for number in range(4000):
        wait_us = 9 * HOUR_US // 5 + split_mix_64(6, number) % (8 * HOUR_US // 5)
        shown = correction.corrected(RAW, pool=DEFAULT_POOL)
        above.append(wait_us > shown.p50)
        correction.resolved(wait_us, shown, pool=DEFAULT_POOL, at_us=number * HOUR_US // 4, was_overdue=False)
    assert 0.45 <= sum(above[1000:]) / 3000 <= 0.55


def test_each_of_many_outcomes_in_a_week_moves_the_correction_less() -> None:
    correction = BandCorrection()
    moved = []
    for number in range(1000):
        before = correction.offsets.get(DEFAULT_POOL, PoolCorrection()).upper
        wait_us = 100 * HOUR_US if number % 10 == 0 else 2 * HOUR_US
        correction.resolved(wait_us, RAW, pool=DEFAULT_POOL, at_us=number * WEEK_US // 2000, was_overdue=False)
        moved.append(abs(correction.offsets[DEFAULT_POOL].upper - before) * 10 // (9 if number % 10 == 0 else 1))
    assert moved[0] == STEP_MAX
    assert moved[-1] == STEP_MIN
    later = correction.offsets[DEFAULT_POOL].upper
    correction.resolved(100 * HOUR_US, RAW, pool=DEFAULT_POOL, at_us=10 * WEEK_US, was_overdue=False)
    assert correction.offsets[DEFAULT_POOL].upper - later == STEP_MAX * 9 // 10


def test_a_clock_that_is_far_ahead_for_a_moment_does_not_change_how_far_later_outcomes_move() -> None:
    assert _steps_after(ahead=True) == _steps_after(ahead=False)


def _steps_after(*, ahead: bool) -> list[int]:
    """How far the middle is moved by one outcome after 300 in a week, and by two some weeks later."""
    correction = BandCorrection()
    times = [number * WEEK_US // 300 for number in range(300)]
    for at_us in [*times, *([1000 * WEEK_US] if ahead else [])]:
        correction.resolved(HOUR_US, RAW, pool=DEFAULT_POOL, at_us=at_us, was_overdue=False)
    moved = []
    for at_us in (WEEK_US, 4 * WEEK_US, 4 * WEEK_US + 1):
        before = correction.offsets[DEFAULT_POOL].middle
        correction.resolved(100 * HOUR_US, RAW, pool=DEFAULT_POOL, at_us=at_us, was_overdue=False)
        moved.append(correction.offsets[DEFAULT_POOL].middle - before)
    return moved


@pytest.mark.parametrize("spread", [1, 4])
def test_bands_that_are_too_narrow_widen_until_they_hold_eight_of_ten_outcomes(spread: int) -> None:
    correction = BandCorrection()
    inside = []
    for number in range(4000):
        raw = Band(2 * HOUR_US, 3 * HOUR_US, 4 * HOUR_US)
        wait_us = HOUR_US // 2 + split_mix_64(5, number) % (spread * 5 * HOUR_US)
        shown = correction.corrected(raw, pool=DEFAULT_POOL)
        inside.append(shown.contains(wait_us))
        correction.resolved(wait_us, shown, pool=DEFAULT_POOL, at_us=number * HOUR_US // 4, was_overdue=False)
    assert 0.77 <= sum(inside[1000:]) / 3000 <= 0.83


@given(outcomes=st.lists(st.tuples(waits, st.booleans()), max_size=60), raw=st.tuples(waits, waits, waits))
@examples(100)
def test_shown_bands_are_ordered_after_any_outcomes(
    outcomes: list[tuple[int, bool]], raw: tuple[int, int, int]
) -> None:
    correction = BandCorrection()
    band = Band(*sorted(raw))
    for number, (wait_us, was_overdue) in enumerate(outcomes):
        shown = correction.corrected(band, pool=DEFAULT_POOL)
        assert 0 <= shown.p10 <= shown.p50 <= shown.p90 <= BAND_MAX_US
        assert min(band.p10, BAND_MAX_US) <= shown.p50 <= band.p90
        if was_overdue:
            correction.overdue(pool=DEFAULT_POOL, at_us=number)
        correction.resolved(wait_us, shown, pool=DEFAULT_POOL, at_us=number, was_overdue=was_overdue)
    for own in correction.offsets.values():
        assert OFFSET_MIN <= own.lower <= OFFSET_MAX
        assert OFFSET_MIN <= own.upper <= OFFSET_MAX
    assert BandCorrection(correction.offsets).corrected(band, pool=DEFAULT_POOL) == correction.corrected(
        band, pool=DEFAULT_POOL
    )


def test_the_probability_of_a_start_within_an_hour_is_calibrated_by_outcomes() -> None:
    table = HourTable()
    assert table.calibrated(0.7) == pytest.approx(0.7)
    for number in range(2000):
        table.learn(0.7, started=number % 2 == 0)
    assert table.calibrated(0.7) == pytest.approx(0.5, abs=0.01)
    assert table.calibrated(0.3) == pytest.approx(0.3)
    assert HourTable(table.counts).calibrated(0.7) == table.calibrated(0.7)
    assert sum(count for count, _ in table.counts) == 2000


@given(learned=st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50))
@examples(100)
def test_probabilities_stay_between_0_and_1_and_rise_within_a_bin(learned: list[tuple[float, bool]]) -> None:
    table = HourTable()
    for probability, started in learned:
        table.learn(probability, started=started)
    shown = [table.calibrated(number / 100) for number in range(101)]
    assert all(0 <= one <= 1 for one in shown)
    assert all(low <= high for bin in range(10) for low, high in pairwise(shown[bin * 10 : bin * 10 + 10]))
