"""Garbage collector tuning: old objects are skipped, except in periodic full collections."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from aliquot.cli.serve import GcTuning


class Knot:
    """A cycle."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def as_before() -> Iterator[list[GcTuning]]:
    """Collectors started by a test, ended after it."""
    begun: list[GcTuning] = []
    yield begun
    for collector in begun:
        collector.end()
    gc.collect()
    gc.freeze()  # as scripts/test does


def begin(begun: list[GcTuning], *, thorough_s: float) -> None:
    collector = GcTuning(thorough_s=thorough_s)
    collector.begin()
    begun.append(collector)


def test_objects_that_survive_a_collection_are_skipped_by_the_next(as_before: list[GcTuning]) -> None:
    begin(as_before, thorough_s=3600)
    knot = Knot()
    seen = ref(knot)
    gc.collect()
    assert gc.get_freeze_count() > 0
    del knot
    gc.collect()
    assert seen() is not None


def test_a_young_reference_cycle_is_collected(as_before: list[GcTuning]) -> None:
    begin(as_before, thorough_s=3600)
    gc.collect()
    seen = ref(Knot())
    gc.collect()
    assert seen() is None


def test_a_full_collection_runs_after_its_interval(as_before: list[GcTuning]) -> None:
    begin(as_before, thorough_s=0)
    knot = Knot()
    seen = ref(knot)
    gc.freeze()
    del knot
    gc.collect()
    gc.collect()
    assert seen() is None
