"""A soak with real processes: jobs at a fixed rate and kill -9 of the server; 90 minutes with `scripts/test --long`.

`ALIQUOT_SOAK_MINUTES`, `ALIQUOT_SOAK_JOBS_PER_S` and `ALIQUOT_SOAK_KILL_EVERY_S` change the long one.
"""

import os
from pathlib import Path

import pytest

from long_tests import LONG
from soak_figures import Bound, too_steep
from soak_run import FULL, FULL_JOBS, Soaked, SoakPlan, soak

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BRIEF = SoakPlan(seconds=10, jobs_per_s=5, kill_every_s=5)
MINUTES = float(os.environ.get("ALIQUOT_SOAK_MINUTES", "90"))
WHOLE = SoakPlan(
    seconds=60 * MINUTES,
    jobs_per_s=float(os.environ.get("ALIQUOT_SOAK_JOBS_PER_S", "20")),
    kill_every_s=float(os.environ.get("ALIQUOT_SOAK_KILL_EVERY_S", "300")),
)
FIGURES = ("server RSS, MB", "server descriptors", "server threads", "agents' RSS, MB", "agents' descriptors")
KB_PER_JOB_MAX = 8.0
"""Limit of RSS growth per job until a server keeps 10,000 ended sessions."""
JOBS_PER_HOUR = 3600 * WHOLE.jobs_per_s
BOUNDS = (
    Bound(name="server RSS, MB", per_hour_max=JOBS_PER_HOUR * KB_PER_JOB_MAX / 1000),
    Bound(name="server descriptors", per_hour_max=30.0),
    Bound(name="server threads", per_hour_max=30.0),
    Bound(name="agents' RSS, MB", per_hour_max=30.0),
    Bound(name="agents' descriptors", per_hour_max=2.0),
    Bound(name="agents' threads", per_hour_max=6.0),
    Bound(name="agents' tasks and shims", per_hour_max=2.0),
    Bound(name="database, KB per job", per_hour_max=2.0),
    Bound(name="median wait of a minute, ms", per_hour_max=100.0),
)


def check_jobs(found: Soaked) -> None:
    """Every acknowledged job ran once, and completed."""
    print(found.page())
    assert found.acknowledged > 0.5 * found.plan.seconds * found.plan.jobs_per_s
    assert (found.completed, found.repeated) == (found.acknowledged, 0)


async def test_a_brief_soak_loses_nothing_and_measures_everything(tmp_path: Path) -> None:
    found = await soak(tmp_path, BRIEF)
    check_jobs(found)
    assert found.kills >= 1
    assert {name for sample in found.samples["server"] + found.samples["agents"] for name in sample.values} >= {
        *FIGURES
    }


@LONG
@pytest.mark.timeout(4 * 60 * MINUTES)
async def test_a_whole_soak_does_not_drift(tmp_path: Path) -> None:
    found = await soak(tmp_path, WHOLE)
    check_jobs(found)
    is_full = found.acknowledged > 2 * FULL_JOBS
    bounds = (*BOUNDS, Bound(name=FULL, per_hour_max=150.0)) if is_full else BOUNDS
    assert too_steep(found.drifts(), bounds) == []
