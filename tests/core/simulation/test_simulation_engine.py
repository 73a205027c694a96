"""Simulating on the fast engine gives the same run as `decide`, while the predictor learns."""

import random

import pytest

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow
from aliquot.core.simulation.cluster import Estimates, SimulationSettings, nodes, pool
from aliquot.core.simulation.report import Outcome
from aliquot.core.simulation.run import simulate
from aliquot.core.simulation.trace import SECOND_US, Job, gpu_request, numbered
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import Backfill, PolicyDocument
from long_tests import IS_LONG

JOBS = 160 if IS_LONG else 100


def _jobs(count: int) -> tuple[Job, ...]:
    """Bursts of jobs of a few users, some with shares of GPUs."""
    dice = random.Random(5)
    jobs = []
    for number in range(count):
        user = dice.choice("abcd")
        milli = dice.choice([1000, 1000, 2000, 4000, 500, 250])
        jobs.append(
            Job(
                id=SessionId(""),
                user=UserId(user),
                project=ProjectId(dice.choice("pq")),
                submit_us=(number // 20 * 3600 + dice.randrange(1800)) * SECOND_US + dice.randrange(1000),
                duration_ms=int(dice.lognormvariate(7.5, 1.2) * 1000) + 1000,
                request=gpu_request(milli),
                cluster_size=dice.choice([1, 1, 1, 2]) if milli >= 1000 else 1,
                program=dice.choice([None, "train.py"]),
                limit_ms=dice.choice([None, None, 14_400_000]),
            )
        )
    return numbered(jobs)


@pytest.mark.parametrize("agents", [pool(12), nodes(3, gpus_each=4)], ids=["pool", "nodes"])
@pytest.mark.parametrize("order", ["fair_share", "relative_age", "fcfs", "sjf"])
def test_the_fast_engine_gives_the_same_simulation_as_decide(order: str, agents: tuple[AgentRow, ...]) -> None:
    policy = Policy.of(PolicyDocument(order=order))
    for estimates, jitter in ((Estimates.PREDICTED, 1), (Estimates.EXACT, 0), (Estimates.NONE, 0)):
        settings = SimulationSettings(policy=policy, estimates=estimates, jitter_permille=jitter, seed=3)
        assert _course(agents, settings, exact=False) == _course(agents, settings, exact=True)


def test_a_simulation_with_preemption_falls_back_to_decide() -> None:
    policy = Policy.of(PolicyDocument(order="priority", backfill=Backfill.EASY))
    settings = SimulationSettings(policy=policy)
    assert _course(pool(12), settings, exact=False) == _course(pool(12), settings, exact=True)


def _course(agents: tuple[AgentRow, ...], settings: SimulationSettings, *, exact: bool) -> tuple[object, ...]:
    outcome: Outcome = simulate(_jobs(JOBS), agents, settings, exact=exact)
    timeline = outcome.timeline
    assert max(timeline.waiting) > 10
    return outcome.started_us, outcome.ended_us, timeline.at_us, timeline.held_milli, timeline.waiting
