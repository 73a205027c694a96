"""Binary sizes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot_schema.errors import InvalidAmount
from aliquot_schema.sizes import format_size, parse_size


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
def test_sizes_are_read(text: str, size: int) -> None:
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
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidAmount):
        parse_size(text)


def test_a_size_is_never_rounded() -> None:
    with pytest.raises(InvalidAmount):
        parse_size("1.00000000000000000000000000000000001g")


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1))
def test_a_size_is_written_so_that_it_comes_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(("size", "text"), [(2 * 1024**3, "2g"), (1536, "1536"), (3 * 1024**2, "3m"), (0, "0")])
def test_sizes_are_written_with_the_largest_suffix_that_loses_nothing(size: int, text: str) -> None:
    assert format_size(size) == text
