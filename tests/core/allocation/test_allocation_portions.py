"""Splitting an amount into parts, against brute force."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.allocation.share_splitting import (
    Split,
    equal_parts,
    split_by_room,
    split_equally,
    split_evenly,
    unevenness,
)

ROOMS = st.lists(st.integers(0, 9), min_size=1, max_size=4)
AMOUNTS = st.integers(1, 24)
LEAST = st.integers(0, 4)


def _first(liked: Sequence[int], count: int) -> Sequence[int]:
    return liked[:count]


def _everything(room: Sequence[int], *, amount: int, least: int) -> Iterator[Split]:
    for parts in product(*(range(free + 1) for free in room)):
        if sum(parts) == amount and all(part == 0 or part >= least for part in parts):
            yield {index: part for index, part in enumerate(parts) if part}


def _holds(split: Split, room: Sequence[int], *, amount: int, least: int) -> bool:
    return sum(split.values()) == amount and all(max(least, 1) <= part <= room[i] for i, part in split.items())


@settings(deadline=None, max_examples=300)
@given(ROOMS, AMOUNTS, LEAST)
def test_the_evenly_strategy_finds_the_most_even_split(room: list[int], amount: int, least: int) -> None:
    ours = split_evenly(room, amount=amount, least=least, choose=_first)
    best = min((unevenness(split) for split in _everything(room, amount=amount, least=least)), default=None)
    assert (ours and unevenness(ours)) == best
    assert ours is None or _holds(ours, room, amount=amount, least=least)


@settings(deadline=None, max_examples=300)
@given(ROOMS, AMOUNTS, LEAST)
def test_equal_parts_are_found_over_the_fewest_devices(room: list[int], amount: int, least: int) -> None:
    ours = split_equally(room, amount=amount, least=least, choose=_first)
    equal = [split for split in _everything(room, amount=amount, least=least) if unevenness(split)[0] == 0]
    assert (ours and len(ours)) == min(map(len, equal), default=None)
    assert equal_parts(room, amount=amount, least=least) == (len(ours) if ours else None)
    assert ours is None or (_holds(ours, room, amount=amount, least=least) and unevenness(ours)[0] == 0)


@settings(deadline=None, max_examples=300)
@given(ROOMS, AMOUNTS, LEAST)
def test_the_fill_strategy_finds_a_split_if_one_exists_and_uses_the_fewest_devices(
    room: list[int], amount: int, least: int
) -> None:
    ours = split_by_room(room, amount=amount, least=least, choose=_first)
    fewest = min(map(len, _everything(room, amount=amount, least=least)), default=None)
    assert (ours and len(ours)) == fewest
    assert ours is None or _holds(ours, room, amount=amount, least=least)


@pytest.mark.parametrize(
    ("room", "amount", "split"),
    [
        ([100] * 8, 115, [57, 58]),
        ([70, 150, 110, 90], 158, [79, 79]),
        ([70, 113, 23, 3], 158, [70, 88]),
        ([100, 30, 30], 150, [30, 30, 90]),
        ([5, 5, 5], 15, [5, 5, 5]),
    ],
)
def test_known_amounts_are_split_evenly(room: list[int], amount: int, split: list[int]) -> None:
    ours = split_evenly(room, amount=amount, least=0, choose=_first)
    assert ours is not None
    assert sorted(ours.values()) == split


@pytest.mark.parametrize(
    ("room", "amount", "least", "split"),
    [
        ([30, 100, 100], 150, 0, {1: 100, 2: 50}),
        ([30, 100, 100], 210, 0, {0: 10, 1: 100, 2: 100}),
        ([30, 100, 100], 210, 20, {0: 20, 1: 100, 2: 90}),
        ([30, 100, 100], 210, 31, None),
    ],
)
def test_the_fill_strategy_takes_most_from_the_device_with_the_most_free(
    room: list[int], amount: int, least: int, split: Split | None
) -> None:
    assert split_by_room(room, amount=amount, least=least, choose=_first) == split
