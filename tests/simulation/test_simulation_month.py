"""A month of virtual time: four days in each run, thirty with `scripts/test --long`."""

from itertools import pairwise

import pytest

from long_tests import IS_LONG
from simulation_soak import month
from soak_figures import HEAD, Bound, Sample, drift, too_steep

DAYS = 30 if IS_LONG else 4
BURSTS = 4
JOBS = 15
"""Per burst."""
JOBS_PER_HOUR = BURSTS * JOBS / 24
BOUNDS = (
    # Without drift, two days differ by up to 300 blocks: this averages out in a month, but not in four days.
    Bound(name="blocks of memory", per_hour_max=(2 if IS_LONG else 4) * JOBS_PER_HOUR),
    Bound(name="objects", per_hour_max=2 * JOBS_PER_HOUR),
    Bound(name="tasks", per_hour_max=0.02),
    Bound(name="live sessions", per_hour_max=0.0),
    Bound(name="held leases", per_hour_max=0.0),
    Bound(name="events of a job", per_hour_max=0.01),
    Bound(name="KB of the database per job", per_hour_max=0.02),
    Bound(name="mean wait, ms", per_hour_max=20.0),
)
PAGE_KB = 4.096


def by_day(samples: list[Sample]) -> list[Sample]:
    """With the growth of each day, per job."""
    found = []
    for before, after in pairwise(samples):
        jobs = after.values["sessions"] - before.values["sessions"]
        added = {
            "events of a job": (after.values["events"] - before.values["events"]) / jobs,
            "KB of the database per job": PAGE_KB * (after.values["pages"] - before.values["pages"]) / jobs,
        }
        found.append(Sample(at_s=after.at_s, life=0, values={**after.values, **added}))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_resource_grows_over_a_month() -> None:
    samples = by_day(month(days=DAYS + 1, bursts=BURSTS, jobs=JOBS))
    drifts = [found for bound in BOUNDS if (found := drift(bound.name, samples)) is not None]
    print(HEAD, *(one.words() for one in drifts), sep="\n")
    assert {(one.values["started"], one.values["live sessions"]) for one in samples} == {(BURSTS * JOBS, 0)}
    assert too_steep(drifts, BOUNDS) == []


def test_a_leak_would_be_seen() -> None:
    """Three objects per job and a task per day."""
    samples = [
        Sample(
            at_s=86_400.0 * day, life=0, values={"objects": 1000 + 3 * 24 * JOBS_PER_HOUR * day, "tasks": 14.0 + day}
        )
        for day in range(4)
    ]
    drifts = [found for name in ("objects", "tasks") if (found := drift(name, samples)) is not None]
    said = too_steep(drifts, [bound for bound in BOUNDS if bound.name in ("objects", "tasks", "held leases")])
    assert [words.partition(" grows")[0] for words in said] == ["objects", "tasks", "held leases was not measured"]


def test_growth_is_measured_within_each_process_lifetime() -> None:
    """Each life starts high and stays flat; the level of the next life is no drift."""
    samples = [
        Sample(at_s=100.0 * life + second, life=life, values={"rss": 50.0 - 10 * life + second / 60})
        for life in range(3)
        for second in range(0, 100, 10)
    ]
    found = drift("rss", samples)
    assert found is not None
    assert found.per_hour == pytest.approx(60.0)
    assert drift("rss", samples, warm_s=95) is None
