"""Learning from outcomes: the records alone restore the correction and the report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.foresight import scoring
from aliquot.core.foresight.bands import Band
from aliquot.core.foresight.forecast import ForecastBasis
from aliquot.core.foresight.scoring import ForecastScorer
from aliquot.core.foresight.shown_forecasts import ForecastOutcome, ForecastRecord
from aliquot_schema.ids import PoolId
from forecast_records import HOUR_US, MINUTE_US, forecast, record

POOL = PoolId("default")
DAY_US = 24 * HOUR_US


def started(name: str, made_us: int, waited_min: int, **more: object) -> ForecastRecord:
    return record(
        name,
        made_us,
        outcome=ForecastOutcome.STARTED,
        settled_us=made_us + waited_min * MINUTE_US,
        **more,  # type: ignore[arg-type]  # by name
    )


def test_starts_inside_and_outside_are_counted_and_move_the_band() -> None:
    scores = ForecastScorer()
    before = scores.corrections.starts.offsets
    scores.learn([started("a", DAY_US, 30), started("b", DAY_US, 1), started("c", DAY_US, 200)])
    report = scores.report(runs=3, now_us=2 * DAY_US)
    assert report.groups[0].group == "all"
    assert (report.groups[0].n, report.groups[0].below, report.groups[0].above) == (3, 1 / 3, 1 / 3)
    assert report.waited == 3
    assert before == {}
    assert scores.corrections.starts.offsets[POOL].upper > 300_000


def test_a_session_that_waits_past_its_band_is_an_immediate_miss_and_counted_once() -> None:
    at_once, twice = ForecastScorer(), ForecastScorer()
    late = record("a", DAY_US, outcome=ForecastOutcome.LATE)
    at_once.learn([late])
    raised = at_once.corrections.starts.offsets[POOL].upper
    assert raised > 300_000
    twice.learn([late, late])
    assert twice.corrections.starts.offsets == at_once.corrections.starts.offsets
    at_once.learn([started("a", DAY_US, 300)])
    assert at_once.corrections.starts.offsets[POOL].upper == raised
    assert at_once.report(runs=0, now_us=2 * DAY_US).groups[0].above == 1


def test_sessions_that_still_wait_after_their_band_are_counted_as_misses() -> None:
    """Or a policy under which most sessions never start would look right: only a few of them start in time."""
    scores = ForecastScorer()
    late = [record(f"late-{number}", DAY_US, outcome=ForecastOutcome.LATE) for number in range(3)]
    scores.learn([started("a", DAY_US, 30), *late])
    groups = scores.report(runs=0, now_us=DAY_US + 91 * MINUTE_US).groups
    [policy] = [one for one in groups if one.group.startswith("policy")]
    assert (policy.n, policy.above) == (4, 0.75)
    assert policy.within_factor_2 == 0.25, "how far off it is of those that wait is not known yet"
    after = [started("late-0", DAY_US, 300), record("late-1", DAY_US, outcome=ForecastOutcome.UNKNOWN)]
    scores.learn([*after, record("late-2", DAY_US, outcome=ForecastOutcome.CANCELED, settled_us=DAY_US + 9 * HOUR_US)])
    last = scores.report(runs=0, now_us=3 * DAY_US).groups[0]
    assert (last.n, last.above) == (3, 2 / 3), "each is counted once, and not if its outcome is unknown"


def test_cancelled_sessions_are_left_out_unless_they_waited_past_their_band() -> None:
    scores = ForecastScorer()
    gone = ForecastOutcome.CANCELED
    scores.learn([record("a", DAY_US, outcome=gone, settled_us=DAY_US + MINUTE_US)])
    assert scores.report(runs=0, now_us=2 * DAY_US).groups == ()
    scores.learn([record("b", DAY_US, outcome=gone, settled_us=DAY_US + 2 * HOUR_US)])
    report = scores.report(runs=0, now_us=3 * DAY_US)
    assert (report.censored, report.groups[0].n, report.groups[0].above) == (1, 1, 1)


def test_immediate_and_unknown_forecasts_are_counted_apart_from_waiting_ones() -> None:
    scores = ForecastScorer()
    scores.learn(
        [
            started("a", DAY_US, 0, starts_now=True, minutes=(0, 0, 0)),
            started("b", DAY_US, 20, starts_now=True, minutes=(0, 0, 0)),
            started("c", DAY_US, 20, minutes=None),
        ]
    )
    scores.note_days([(1, 40), (1, 2)])
    report = scores.report(runs=9, now_us=2 * DAY_US)
    assert (report.started_now, report.now_true, report.unknown, report.waited) == (2, 1, 1, 0)
    assert (report.groups, report.at_once, report.runs) == ((), 42, 9)


def test_a_forecast_shows_the_accuracy_of_similar_ones_from_fifty_on() -> None:
    scores = ForecastScorer()
    scores.learn([started(f"s{number}", DAY_US + number, 30) for number in range(49)])
    scores.report(runs=0, now_us=2 * DAY_US)
    assert scores.shown(forecast("x", 2 * DAY_US, (1, 2, 3))).alike == 0
    scores.learn([started("last", DAY_US, 500)])
    scores.report(runs=0, now_us=3 * DAY_US)
    told = scores.shown(forecast("x", 3 * DAY_US, (1, 2, 3)))
    assert (told.alike, told.alike_inside) == (50, 49 / 50)
    assert scores.shown(forecast("x", 3 * DAY_US, None)).alike == 0


def test_recent_waits_are_shown_when_they_were_clearly_more_accurate() -> None:
    scores = ForecastScorer()
    scores.learn([started(f"s{number}", DAY_US + number, 5) for number in range(60)])
    recent_us = Band(3 * MINUTE_US, 20 * MINUTE_US, 40 * MINUTE_US)
    wrong = [started(f"w{number}", 2 * DAY_US + number, 30, minutes=(900, 999, 1200)) for number in range(60)]
    scores.learn(replace(one, shown=replace(one.shown, recent_us=recent_us)) for one in wrong)
    told = scores.shown(forecast("x", 3 * DAY_US, (900, 999, 1200)))
    assert told.forecast.basis == "recent waits"
    assert told.forecast.start_us is not None
    assert told.forecast.start_us.p50 - told.forecast.made_us < HOUR_US
    assert told.simulated_us == forecast("x", 3 * DAY_US, (900, 999, 1200)).start_us


def test_a_missed_band_of_recent_waits_is_not_a_miss_of_the_simulation() -> None:
    """The simulation gave 10 to 90 min, recent waits 1 to 3 min; it starts after 30 min."""
    one, other = ForecastScorer(), ForecastScorer()
    one.learn([started("a", DAY_US, 30)])
    shown = started("a", DAY_US, 30, minutes=(1, 2, 3), basis=ForecastBasis.RECENT_WAITS)
    simulated_us = started("a", DAY_US, 30).shown.simulated_us
    other.replay([replace(shown, shown=replace(shown.shown, simulated_us=simulated_us))])
    assert other.corrections.starts.offsets == one.corrections.starts.offsets
    assert other.report(runs=0, now_us=2 * DAY_US).groups[0].above == 1


def test_only_the_last_90_days_are_counted() -> None:
    scores = ForecastScorer()
    records = []
    for day in (1, 2, 95):
        now_us = day * DAY_US
        gone = record(f"c{day}", now_us, outcome=ForecastOutcome.CANCELED, settled_us=now_us + MINUTE_US)
        now = started(f"n{day}", now_us, 0, starts_now=True, minutes=(0, 0, 0))
        records += [started(f"s{day}", now_us + 1, 30), now, started(f"u{day}", now_us, 5, minutes=None), gone]
    scores.learn(records)
    report, again = scores.report(runs=0, now_us=96 * DAY_US), ForecastScorer()
    assert (report.waited, report.started_now, report.now_true, report.unknown, report.censored) == (2, 1, 1, 1, 1)
    assert (report.groups[0].n, report.since_us) == (1, 95 * DAY_US)
    again.replay(one for one in records if one.made_us >= 6 * DAY_US)
    assert again.report(runs=0, now_us=96 * DAY_US) == report


def test_a_clock_that_is_far_ahead_for_a_moment_takes_nothing_from_the_accuracy() -> None:
    scores, ahead_us = ForecastScorer(), 5000 * DAY_US
    scores.learn([started("s1", DAY_US, 30), started("s2", 2 * DAY_US, 30)])
    scores.note_days([(1, 7)])
    scores.learn([started("far", ahead_us, 30)])
    scores.note_days([(5000, 1)])
    assert scores.report(runs=0, now_us=ahead_us).groups[0].n == 1
    scores.learn([started("s3", 3 * DAY_US, 30)])
    report = scores.report(runs=0, now_us=4 * DAY_US)
    assert (report.groups[0].n, report.waited, report.at_once, report.since_us) == (4, 4, 8, DAY_US)


def test_only_the_newest_judged_forecasts_are_kept_above_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "RECORDS_MAX", 10)
    scores = ForecastScorer()
    scores.learn(started(f"s{number}", DAY_US + number, 30 if number < 5 else 500) for number in range(15))
    report = scores.report(runs=0, now_us=2 * DAY_US)
    assert (report.groups[0].n, report.groups[0].above, report.waited) == (10, 1, 15)


def test_a_session_forecast_to_start_now_does_not_count_in_recent_waits() -> None:
    scores = ForecastScorer()
    scores.learn([started("a", DAY_US, 40), started("b", DAY_US, 0, starts_now=True, minutes=(0, 0, 0))])
    assert scores.shown(forecast("x", 2 * DAY_US, (1, 2, 3))).average_us == 40 * MINUTE_US


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 200), st.sampled_from(ForecastOutcome)), max_size=20))
def test_records_give_the_same_correction_again(courses: list[tuple[int, int, ForecastOutcome]]) -> None:
    records = []
    steps = []
    for number, (hour, waited_min, outcome) in enumerate(courses):
        made_us = DAY_US + hour * HOUR_US + number
        is_open = outcome in (ForecastOutcome.WAITING, ForecastOutcome.LATE)
        settled_us = None if is_open else made_us + waited_min * MINUTE_US + 1
        one = record(f"s{number}", made_us, outcome=outcome, settled_us=settled_us)
        records.append(one)
        p90_us = made_us + 90 * MINUTE_US
        if outcome is ForecastOutcome.LATE or (settled_us is not None and settled_us > p90_us):
            steps.append((p90_us, number, replace(one, outcome=ForecastOutcome.LATE, settled_us=None)))
        if settled_us is not None:
            steps.append((settled_us, number, one))
    live, again = ForecastScorer(), ForecastScorer()
    live.learn(one for _, _, one in sorted(steps, key=lambda step: step[:2]))
    again.replay(reversed(records))
    assert again.corrections.starts.offsets == live.corrections.starts.offsets
    assert again.corrections.within_hour.counts == live.corrections.within_hour.counts
    assert again.report(runs=0, now_us=9 * DAY_US) == live.report(runs=0, now_us=9 * DAY_US)
