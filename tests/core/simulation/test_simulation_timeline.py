"""Timelines: means over time, and use while sessions wait."""

import pytest

from aliquot.core.simulation.report import Timeline, means, used_part

SECOND = 1_000_000


def timeline(*points: tuple[int, int, int]) -> Timeline:
    found = Timeline()
    for at_s, held, waiting in points:
        found.add(at_s * SECOND, held_milli=held, waiting=waiting)
    return found


def test_a_mean_weighs_every_value_by_how_long_it_held() -> None:
    at_s, values = means(found := timeline((10, 4, 0), (11, 0, 0), (14, 8, 0), (18, 0, 0)), found.held_milli, bins=2)
    assert at_s.tolist() == [2, 6]
    assert values.tolist() == [1, 8]


def test_a_timeline_without_duration_has_no_means() -> None:
    at_s, values = means(timeline((3, 1, 1)), [1], bins=4)
    assert (len(at_s), len(values)) == (0, 0)


def test_the_use_counts_only_time_in_which_jobs_wait() -> None:
    found = timeline((0, 1000, 0), (10, 500, 2), (20, 2000, 1), (25, 0, 0), (90, 0, 0))
    assert used_part(found, capacity_milli=2000) == pytest.approx((500 * 10 + 2000 * 5) / (15 * 2000))
    assert used_part(timeline((0, 1, 0), (5, 0, 0)), capacity_milli=2) == 1
