"""Regression table: every fixed bug, planted again, is found by the command that the table names."""

import pytest

from long_tests import LONG
from planted_bugs import BUGS, PATCHES, README, PlantedBug, find, table

QUICK = [bug for bug in BUGS if bug.is_short]
SLOW = [bug for bug in BUGS if not bug.is_short]


@pytest.mark.slow
@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.name)
def test_a_bug_that_was_fixed_is_found_again(bug: PlantedBug) -> None:
    is_found, printed = find(bug)
    assert is_found, printed


@pytest.mark.slow
@LONG
@pytest.mark.parametrize("bug", SLOW, ids=lambda bug: bug.name)
def test_a_bug_whose_test_takes_longer_is_found_again(bug: PlantedBug) -> None:
    is_found, printed = find(bug)
    assert is_found, printed


def test_the_table_has_each_patch_and_each_patch_is_in_the_table() -> None:
    assert table() in README.read_text(encoding="utf-8"), "print it by `python tests/support/planted_bugs.py`"
    assert sorted(path.stem for path in PATCHES.iterdir()) == sorted(bug.name for bug in BUGS)
