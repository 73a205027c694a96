"""Forecast accuracy: counts, groups, and when recent waits are shown instead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.foresight.accuracy import (
    ALL,
    DAY_US,
    GATE_COUNT_MIN,
    KEPT_US,
    MINUTE_US,
    SHOWN_MIN,
    WAITS_MAX,
    WAITS_TRIMMED,
    Accuracy,
    BasisChoice,
    RecentWaits,
    ResolvedForecast,
    accuracy_of,
    by_choice,
    is_within_factor_2,
    like,
    pinball_us,
)
from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.forecast import Features, Forecast, ForecastBasis
from aliquot_schema.ids import SessionId
from aliquot_schema.sessions import DEFAULT_POOL
from core_effort import examples

BAND = Band(10 * MINUTE_US, 20 * MINUTE_US, 40 * MINUTE_US)
FEATURES = Features(
    pool=DEFAULT_POOL,
    size="single",
    is_new_user=False,
    queue="10-99",
    told="10 min-2 h",
    policy_version=3,
    milli=1000,
)
waits = st.integers(0, 100 * MINUTE_US)


def resolved(
    minutes: float, *, day: int = 0, features: Features = FEATURES, baseline: float | None = None
) -> ResolvedForecast:
    return ResolvedForecast(
        made_us=day * DAY_US,
        features=features,
        shown=BAND,
        wait_us=int(minutes * MINUTE_US),
        baseline_us=None if baseline is None else int(baseline * MINUTE_US),
    )


@given(band=st.tuples(waits, waits, waits), wait_us=waits)
@examples(100)
def test_the_pinball_loss_equals_the_textbook_formula(band: tuple[int, int, int], wait_us: int) -> None:
    shown = Band(*sorted(band))
    quantiles = np.array([0.1, 0.5, 0.9])
    errors = wait_us - np.array(shown, dtype=np.float64)
    expected = np.maximum(quantiles * errors, (quantiles - 1) * errors).mean()
    assert pinball_us(shown, wait_us) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("told", "was", "expected"), [(60, 25, False), (60, 28, True), (60, 125, True), (60, 126, False), (0, 5, True)]
)
def test_the_factor_2_rule_tolerates_five_minutes(told: int, was: int, expected: bool) -> None:
    assert is_within_factor_2(told * MINUTE_US, was * MINUTE_US) is expected


def test_accuracy_counts_outcomes_below_inside_and_above_the_band() -> None:
    found = accuracy_of("x", [resolved(minutes) for minutes in (5, 15, 20.5, 35, 100)])
    assert (found.n, found.days) == (5, 1)
    assert (found.below, found.inside, found.above) == (0.2, 0.6, 0.2)
    assert (found.within_1_min, found.within_10_min, found.within_factor_2) == (0.2, 0.4, 0.6)
    assert found.pinball_us == sum(pinball_us(BAND, int(m * MINUTE_US)) for m in (5, 15, 20.5, 35, 100)) // 5
    assert found.baseline_pinball_us is None
    assert accuracy_of("x", [resolved(20, baseline=30), resolved(20)]).baseline_pinball_us == 5 * MINUTE_US


def test_the_confidence_interval_is_computed_over_days() -> None:
    burst = [resolved(100)] * 50
    one_day = accuracy_of("x", [resolved(20)] * 50 + burst)
    assert (one_day.inside_low, one_day.inside_high) == (0, 1), "one day says nothing about others"
    days = [resolved(20, day=day) for day in range(1, 11) for _ in range(5)]
    found = accuracy_of("x", [*days, *burst])
    assert found.inside_low < 0.35 < 0.6 < found.inside_high


def test_accuracy_groups_use_the_features_known_at_forecast_time() -> None:
    wide = replace(FEATURES, size="wide", is_new_user=True, told=">2 h")
    accuracy = Accuracy([resolved(20)] * 3 + [resolved(20, features=wide)])
    found = {one.group: one.n for one in accuracy.groups(now_us=0)}
    assert next(iter(found)) == ALL
    assert found == {
        ALL: 4,
        "size: single": 3,
        "size: wide": 1,
        "new user": 1,
        "queue: 10-99": 4,
        "told: 10 min-2 h": 3,
        "told: >2 h": 1,
        "policy: 3": 4,
        like(FEATURES): 3,
        like(wide): 1,
    }


@pytest.mark.parametrize(
    ("n", "sentence"), [(SHOWN_MIN - 1, None), (100, "of 100 like this, 80 % started inside the band")]
)
def test_a_share_of_too_few_forecasts_is_not_shown(n: int, sentence: str | None) -> None:
    members = [resolved(20 if number % 5 else 100) for number in range(n)]
    assert accuracy_of(like(FEATURES), members).sentence() == sentence


def test_old_forecasts_are_forgotten() -> None:
    accuracy = Accuracy([resolved(20), resolved(20, day=1)])
    first_us = resolved(20).made_us
    found = [accuracy.groups(now_us=now_us + KEPT_US) for now_us in (first_us, first_us + 1, first_us + 2 * DAY_US)]
    assert [groups[0].n if groups else 0 for groups in found] == [2, 1, 0]


def test_recent_waits_are_by_size_class_and_give_quantiles_and_an_average() -> None:
    recent = RecentWaits()
    assert recent.band(pool=DEFAULT_POOL, milli=1000) is None
    assert recent.average_us(pool=DEFAULT_POOL, milli=1000) is None
    for minutes in range(1, 12):
        recent.learn(minutes * MINUTE_US, pool=DEFAULT_POOL, milli=2000)
    assert recent.band(pool=DEFAULT_POOL, milli=1000) is None
    band = recent.band(pool=DEFAULT_POOL, milli=3000)
    assert band is not None
    assert band.p50 == 6 * MINUTE_US
    average_us = 1.0
    for minutes in range(2, 12):
        average_us += (minutes - average_us) / 10
    assert recent.average_us(pool=DEFAULT_POOL, milli=2000) == pytest.approx(average_us * MINUTE_US, abs=20)


def test_recent_waits_of_a_session_that_has_waited_are_those_that_were_longer() -> None:
    recent = RecentWaits()
    for minutes in range(1, 12):
        recent.learn(minutes * MINUTE_US, pool=DEFAULT_POOL, milli=1000)
    band = recent.band(pool=DEFAULT_POOL, milli=1000, waited_us=8 * MINUTE_US)
    assert band is not None
    assert band.p50 == 2 * MINUTE_US, "9, 10 and 11 minutes, less the eight that it has waited"
    assert recent.band(pool=DEFAULT_POOL, milli=1000, waited_us=11 * MINUTE_US) is None


def test_recent_waits_follow_a_change_and_forget_the_oldest() -> None:
    recent = RecentWaits()
    for _ in range(WAITS_MAX + 5):
        recent.learn(MINUTE_US, pool=DEFAULT_POOL, milli=1000)
    for _ in range(3):
        recent.learn(100 * MINUTE_US, pool=DEFAULT_POOL, milli=1000)
    for _ in range(WAITS_TRIMMED // 2):
        recent.learn(100 * MINUTE_US, pool=DEFAULT_POOL, milli=1000)
    band = recent.band(pool=DEFAULT_POOL, milli=1000)
    assert band is not None
    assert band.p90 == 100 * MINUTE_US


def test_recent_waits_are_preferred_when_they_are_clearly_more_accurate() -> None:
    bad, good = Band(0, 0, 0), Band(30 * MINUTE_US, 30 * MINUTE_US, 30 * MINUTE_US)
    choice = BasisChoice()
    for _ in range(GATE_COUNT_MIN - 1):
        choice.learn(bad, good, wait_us=35 * MINUTE_US, pool=DEFAULT_POOL)
    choice.learn(bad, None, wait_us=35 * MINUTE_US, pool=DEFAULT_POOL)
    assert not choice.prefers_recent_waits(DEFAULT_POOL)
    choice.learn(bad, good, wait_us=35 * MINUTE_US, pool=DEFAULT_POOL)
    assert choice.prefers_recent_waits(DEFAULT_POOL)
    for _ in range(100):
        choice.learn(good, bad, wait_us=35 * MINUTE_US, pool=DEFAULT_POOL)
    assert not choice.prefers_recent_waits(DEFAULT_POOL)


def test_a_forecast_from_recent_waits_names_them_as_its_basis() -> None:
    half_an_hour, choice = Band(30 * MINUTE_US, 30 * MINUTE_US, 30 * MINUTE_US), BasisChoice()
    at_us = 5 * DAY_US
    start = BAND.later(at_us)
    forecast = Forecast(
        session_id=SessionId("s"),
        made_us=at_us,
        revision=1,
        starts_now=False,
        start_us=start,
        end_us=start,
        raw_start_us=start,
        raw_end_us=start,
        within_hour=0.9,
        raw_within_hour=0.9,
        unknown=None,
        runs_known=9,
        features=FEATURES,
    )
    assert by_choice(forecast, half_an_hour, choice) == forecast
    for _ in range(GATE_COUNT_MIN):
        choice.learn(Band(0, 0, 0), Band(30, 30, 30), wait_us=31, pool=DEFAULT_POOL)
    shown = by_choice(forecast, half_an_hour, choice)
    assert shown.basis is ForecastBasis.RECENT_WAITS
    assert shown.start_us == half_an_hour.later(at_us)
    for untouched in (replace(forecast, starts_now=True), replace(forecast, start_us=None)):
        assert by_choice(untouched, half_an_hour, choice) == untouched
    assert by_choice(forecast, None, choice) == forecast
