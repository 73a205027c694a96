"""Idle detector: use, idleness, and that time without readings is ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.idleness import SECOND_US, IdleRule, IdleState, UseReading

RULE = IdleRule()
MINUTE_US = 60 * SECOND_US
NONE = UseReading(at_us=0, utilization_pct=0.0, memory_bytes=40, memory_bytes_total=100)


def read(*readings: UseReading, rule: IdleRule = RULE) -> IdleState:
    state = IdleState()
    for reading in readings:
        state = state.after(reading, rule)
    return state


def every_minute(minutes: range, **values: float | None) -> tuple[UseReading, ...]:
    return tuple(replace(NONE, at_us=minute * MINUTE_US, **values) for minute in minutes)


def test_a_session_is_idle_after_half_an_hour_without_use_and_not_before() -> None:
    assert not read(*every_minute(range(30))).is_idle(RULE)
    assert read(*every_minute(range(31))).is_idle(RULE)


@pytest.mark.parametrize(
    "use",
    [
        {"utilization_pct": 1.0},
        {"memory_bytes": 60},
        {"memory_bytes": 20},
        {"cpu_cores": 0.5},
        {"io_bytes_per_s": 5e6},
    ],
    ids=lambda use: next(iter(use)),
)
def test_any_use_restarts_the_idle_time(use: dict[str, float]) -> None:
    used = replace(NONE, at_us=20 * MINUTE_US, **use)  # type: ignore[arg-type]
    before = read(*every_minute(range(20)), used)
    assert (before.idle_us, before.was_used, before.idle_since_us) == (0, True, None)
    after = read(*every_minute(range(20)), used, *every_minute(range(21, 51), memory_bytes=used.memory_bytes))
    assert (after.idle_us, after.idle_since_us) == (29 * MINUTE_US, 21 * MINUTE_US)


def test_a_session_that_never_used_its_device_is_marked() -> None:
    assert not read(*every_minute(range(40))).was_used
    assert read(*every_minute(range(1), utilization_pct=80.0), *every_minute(range(1, 40))).was_used


def test_long_gaps_between_readings_do_not_count_as_idle_time() -> None:
    """Gaps of two minutes count, ten are skipped, twenty discard everything before."""
    assert read(*every_minute(range(10)), *every_minute(range(12, 20))).idle_us == 19 * MINUTE_US
    assert read(*every_minute(range(10)), *every_minute(range(19, 30))).idle_us == (9 + 10) * MINUTE_US
    assert read(*every_minute(range(10)), *every_minute(range(30, 40))).idle_us == 9 * MINUTE_US


def test_a_reading_without_utilization_changes_nothing() -> None:
    state = read(*every_minute(range(20)))
    blank = replace(NONE, at_us=21 * MINUTE_US, utilization_pct=None, memory_bytes=90)
    assert state.after(blank, RULE) == state


def test_use_in_a_second_reading_of_the_same_time_counts() -> None:
    used = replace(NONE, at_us=19 * MINUTE_US, utilization_pct=3.0)
    state = read(*every_minute(range(20)), used)
    assert (state.idle_us, state.idle_since_us, state.was_used) == (0, None, True)


READINGS = st.lists(
    st.builds(
        UseReading,
        at_us=st.integers(0, 7_200).map(lambda s: s * SECOND_US),
        utilization_pct=st.none() | st.sampled_from([0.0, 0.0, 0.0, 3.0]),
        memory_bytes=st.none() | st.integers(0, 100),
        memory_bytes_total=st.just(100),
    ),
    max_size=60,
)


@given(READINGS)
def test_idle_time_is_measured_time_since_the_last_use(readings: list[UseReading]) -> None:
    readings.sort(key=lambda one: one.at_us)
    state = read(*readings)
    used = [one.at_us for one in readings if one.utilization_pct]
    known = [one.at_us for one in readings if one.utilization_pct is not None]
    if state.idle_us:
        assert state.idle_since_us is not None
        assert state.idle_us <= known[-1] - state.idle_since_us
        assert not used or used[-1] <= state.idle_since_us
