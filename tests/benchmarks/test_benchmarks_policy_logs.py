"""The policy benchmark's synthetic logs have the stated properties and are reproducible."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from policy_logs import LOGS, PolicyLog, drawn  # the path is set above

from aliquot.core.simulation.trace import load
from aliquot_schema.resources.slots import MILLI


def smaller(name: str) -> PolicyLog:
    return replace(LOGS[name], jobs=600)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_log_is_the_same_for_the_same_seed_and_has_its_load(name: str) -> None:
    log = smaller(name)
    jobs = drawn(log)
    assert jobs == drawn(log)
    assert jobs != drawn(replace(log, seed=99))
    assert len(jobs) == 600
    assert load(jobs, gpus=log.gpus) == pytest.approx(log.load, rel=0.25)
    assert all((job.limit_ms is not None) is log.has_limits for job in jobs)
    assert all(job.limit_ms is None or job.limit_ms >= job.duration_ms for job in jobs)
    assert all(0 < job.milli <= log.gpus * MILLI for job in jobs)


def test_gangs_and_a_heavy_user_have_their_specified_shares() -> None:
    jobs = drawn(smaller("wide gangs"))
    work = [job.milli * job.duration_ms for job in jobs]
    wide = [amount for job, amount in zip(jobs, work, strict=True) if job.milli >= 32 * MILLI]
    assert sum(wide) / sum(work) == pytest.approx(0.45, abs=0.1)
    users = Counter(job.user for job in drawn(smaller("heavy user")))
    assert users.most_common(1)[0][1] == pytest.approx(360, abs=40)
