"""Binary sizes, and durations."""

import json
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot_schema.errors import InvalidAmount, InvalidRequest
from aliquot_schema.resources.units import (
    duration_seconds,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    percent_text,
)

DURATIONS: Final = json.loads(
    (Path(__file__).parents[2] / "server/dashboard/tests/durations.json").read_text(encoding="utf-8")
)
"""Shared with the dashboard, built from its own folder only."""
"""Texts and their seconds, null if refused. The dashboard's tests read the same table."""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("512m", 512 * 1024**2),
        ("2g", 2 * 1024**3),
        ("2G", 2 * 1024**3),
        ("2GB", 2 * 1024**3),
        ("2GiB", 2 * 1024**3),
        ("2 gib", 2 * 1024**3),
        ("1.5k", 1536),
        ("7b", 7),
        ("1e", 1024**6),
        (" 3t ", 3 * 1024**4),
    ],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g",
        "-1g",
        "+1g",
        "NaN",
        "inf",
        "1e3",
        "1.5",
        "0.3k",
        "2gg",
        "2xb",
        "1_0g",
        "٢g",
        "1,5g",
        ".5g",
        "1.g",
        "9" * 41,
    ],
)
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(InvalidAmount):
        parse_size(text)


def test_a_size_is_never_rounded() -> None:
    with pytest.raises(InvalidAmount):
        parse_size("1.00000000000000000000000000000000001g")


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1))
def test_formatted_sizes_parse_to_the_same_value(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(("size", "text"), [(2 * 1024**3, "2g"), (1536, "1536"), (3 * 1024**2, "3m"), (0, "0")])
def test_sizes_are_written_with_the_largest_suffix_that_loses_nothing(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(("text", "seconds"), [(case["text"], case["seconds"]) for case in DURATIONS])
def test_durations_are_parsed_or_refused(text: str, seconds: float | None) -> None:
    if seconds is not None:
        assert parse_duration(text) == seconds
        return
    with pytest.raises(InvalidRequest, match="is not a duration; write it like 90s, 15m, 2h30m or 1d12h") as refusal:
        parse_duration(text, field="time_limit")
    assert refusal.value.field == "time_limit"
    assert refusal.value.message.startswith("time_limit: ")


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, None), (90, 90), (0.0004, 0.0004), (-1, -1), ("90", 90), ("2h30", 9000)]
)
def test_a_duration_is_a_number_of_seconds_or_text(value: float | str | None, seconds: float | None) -> None:
    assert duration_seconds(value, field="time_limit") == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (1.5, "1.5 s"),
        (90, "1 min 30 s"),
        (9000, "2 h 30 min"),
        (3600, "1 h"),
        (129_600, "1 d 12 h"),
        (604_800, "7 d"),
        (86_400 + 3600 + 60 + 1, "1 d 1 h 1 min 1 s"),
    ],
)
def test_durations_are_written_in_full(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**10))
def test_formatted_durations_parse_to_the_same_value(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, abs=0.0005)


@pytest.mark.parametrize(
    ("percent", "text"),
    [
        (0, "0 %"),
        (0.01, "< 0.1 %"),
        (0.4, "0.4 %"),
        (5, "5 %"),
        (42.6, "43 %"),
        (99.6, "99.6 %"),
        (99.96, "> 99.9 %"),
        (100, "100 %"),
    ],
)
def test_percentages_near_none_and_all_keep_a_decimal(percent: float, text: str) -> None:
    assert percent_text(percent) == text
