"""Use trend: dropped use, use far behind the twins, and cases without an alert."""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

import pytest

from aliquot.core.use_trend import SECOND_US, UseTrend, behind_twins

MINUTE_US = 60 * SECOND_US
LIMIT_US = 15 * MINUTE_US


def minutes(*parts: tuple[int, float | None]) -> list[float | None]:
    """A reading per minute: `count` of each value."""
    return list(chain.from_iterable(repeat(value, count) for count, value in parts))


def alarms(readings: Sequence[float | None]) -> list[int]:
    """Minutes in which an alert opens."""
    trend, found, was = UseTrend(), [], False
    for minute, value in enumerate(readings):
        trend = trend.after(minute * MINUTE_US, value)
        if trend.is_dropped(LIMIT_US) and not was:
            found.append(minute)
        was = trend.is_dropped(LIMIT_US)
    return found


def of(readings: Iterable[float | None]) -> UseTrend:
    trend = UseTrend()
    for minute, value in enumerate(readings):
        trend = trend.after(minute * MINUTE_US, value)
    return trend


@pytest.mark.parametrize("rest", [0.0, 2.0], ids=["nothing", "nearly nothing"])
def test_a_drop_from_steady_use_to_none_is_reported_once_after_15_minutes(rest: float) -> None:
    (at,) = alarms(minutes((180, 90.0), (300, rest)))
    assert 180 + 15 <= at <= 180 + 20


def test_a_reported_drop_lasts_until_the_gpu_is_used_again() -> None:
    dropped = minutes((180, 90.0), (1000, 0.0))
    assert of(dropped).is_dropped(LIMIT_US)
    again = of([*dropped, *minutes((6, 90.0))])
    assert not again.is_dropped(LIMIT_US)


@pytest.mark.parametrize(
    "readings",
    [
        minutes((180, 90.0), (14, 0.0), (180, 90.0)),
        minutes(*[(57, 90.0), (3, 0.0)] * 8),
        minutes(*[(50, 90.0), (12, 0.0)] * 8),
        minutes(*[(180, 90.0), (5, 0.0)] * 4),
        minutes((100, 90.0), (300, 0.0)),
        minutes((300, 10.0), (300, 0.0)),
        minutes((300, 90.0), (300, 20.0)),
        minutes(*[(20, 90.0), (20, 0.0)] * 8),
        minutes((180, 90.0), (300, None)),
        minutes((180, 90.0), (10, 0.0), (30, None), (10, 0.0)),
        minutes((500, 0.0)),
    ],
    ids=[
        "a pause below the limit",
        "checkpoints",
        "evaluations of 12 min each hour",
        "short dips",
        "not used for two hours before",
        "hardly used before",
        "less use is still use",
        "never steady",
        "no readings",
        "a gap in the pause",
        "never used",
    ],
)
def test_pauses_and_irregular_use_raise_no_alarm(readings: list[float | None]) -> None:
    assert alarms(readings) == []


def test_a_job_with_regular_pauses_is_reported_after_three_times_the_longest_pause() -> None:
    (at,) = alarms(minutes(*[(50, 90.0), (15, 0.0)] * 4, (50, 90.0), (200, 0.0)))
    assert 310 + 30 <= at <= 310 + 65


def test_old_readings_are_skipped() -> None:
    trend = of(minutes((10, 50.0)))
    assert trend.after(3 * MINUTE_US, 0.0) == trend


def test_the_last_half_hour_is_the_mean_of_six_averages() -> None:
    assert of(minutes((60, 40.0))).recent_pct is None
    assert of(minutes((30, 0.0), (31, 40.0))).recent_pct == 40.0
    assert of(minutes((200, 90.0), (31, 40.0))).recent_pct == 40.0
    assert of(minutes((200, 90.0), (31, 0.0))).recent_pct == 0.0


def test_a_session_far_behind_its_twins_is_reported() -> None:
    assert behind_twins({"a": 90.0, "b": 92.0, "c": 88.0, "d": 30.0}, pct=50, twins_min=4) == {"d": 90.0}


@pytest.mark.parametrize(
    "recent",
    [
        {"a": 90.0, "b": 92.0, "c": 30.0},
        {"a": 90.0, "b": 92.0, "c": 88.0, "d": 46.0},
        {"a": 20.0, "b": 21.0, "c": 22.0, "d": 1.0},
        {"a": 90.0, "b": 50.0, "c": 31.0, "d": 12.0},
        {"a": 90.0, "b": 90.0, "c": 5.0, "d": 5.0},
        {},
    ],
    ids=["too few", "half as much", "hardly used", "all different", "two kinds of work", "none"],
)
def test_sessions_with_few_or_differing_twins_are_not_reported(recent: dict[str, float]) -> None:
    assert behind_twins(recent, pct=50, twins_min=4) == {}
