"""Preemption: grace, kept and lost work, and the return to the queue."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.foresight import decided_cluster
from aliquot.core.model.plan import Eviction, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.scheduler.decide import decide
from aliquot.core.simulation import run
from aliquot.core.simulation.cluster import SimulationSettings, pool
from aliquot.core.simulation.report import Outcome, Times, report
from aliquot.core.simulation.trace import SECOND_US, Job, gpu_request, numbered
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.sessions import PreemptionCause, Priority

Evict = Callable[[Mapping[int, tuple[int, int]]], None]


def job(submit_s: int, duration_s: int, gpus: int) -> Job:
    return Job(
        id=SessionId(""),
        user=UserId("ann"),
        project=ProjectId("lab"),
        submit_us=submit_s * SECOND_US,
        duration_ms=duration_s * 1000,
        request=gpu_request(gpus * 1000),
        preemptible=True,
    )


@pytest.fixture
def evict(monkeypatch: pytest.MonkeyPatch) -> Evict:
    """Preempts a job in the pass at a given second: {second: (job, grace in seconds)}."""

    def tell(when: Mapping[int, tuple[int, int]]) -> None:
        left = dict(when)

        def deciding(*arguments: Any, now_us: int, **options: Any) -> Plan:
            plan = decide(*arguments, now_us=now_us, **options)
            if (asked := left.pop(now_us // SECOND_US, None)) is None:
                return plan
            eviction = Eviction(
                session_id=SessionId(f"{asked[0]:08d}"),
                version=1,
                cause=PreemptionCause.PRIORITY,
                by_session=None,
                by_user=UserId("bob"),
                grace_ms=asked[1] * 1000,
            )
            return replace(plan, evictions=(eviction,))

        monkeypatch.setattr(decided_cluster, "decide", deciding)

    return tell


def ran(*jobs: Job, checkpoint_s: int | None = None) -> Outcome:
    checkpoint_ms = None if checkpoint_s is None else checkpoint_s * 1000
    settings = SimulationSettings(policy=Policy(), checkpoint_ms=checkpoint_ms)
    return run.simulate(numbered(jobs), pool(2), settings, exact=True)


def ends_s(outcome: Outcome) -> list[int]:
    return [ended // SECOND_US for ended in outcome.ended_us]


def test_without_checkpoints_all_work_is_done_again(evict: Evict) -> None:
    evict({50: (0, 5)})
    outcome = ran(job(0, 100, 2), job(50, 10, 1))
    # It keeps its place in the queue, so it restarts after its grace, ahead of the other job.
    assert ends_s(outcome) == [155, 165]
    assert outcome.preemptions == (1, 0)
    assert outcome.lost_ms == (55_000, 0)


def test_work_is_kept_up_to_the_last_checkpoint(evict: Evict) -> None:
    evict({50: (0, 5)})
    outcome = ran(job(0, 100, 2), job(50, 10, 1), checkpoint_s=20)
    assert ends_s(outcome) == [55 + 60, 125]
    assert outcome.lost_ms == (15_000, 0)


def test_a_second_preemption_does_not_lose_work_kept_at_the_first(evict: Evict) -> None:
    evict({50: (0, 0), 70: (0, 0)})
    outcome = ran(job(0, 100, 2), job(50, 10, 2), job(70, 10, 2), checkpoint_s=20)
    # 40 s of the first 50 are kept, then 60 of 60.
    assert outcome.lost_ms[0] == 10_000
    assert outcome.preemptions[0] == 2
    assert ends_s(outcome)[0] == 110


def test_a_job_that_ends_within_its_grace_time_is_not_preempted(evict: Evict) -> None:
    evict({50: (0, 50)})
    outcome = ran(job(0, 100, 2), job(50, 10, 1))
    assert ends_s(outcome) == [100, 110]
    assert outcome.preemptions == (0, 0)


def test_lost_time_is_reported_and_does_not_count_as_waiting(evict: Evict) -> None:
    evict({50: (0, 5)})
    outcome = ran(job(0, 100, 2), job(50, 10, 1))
    made = report(outcome)
    assert (made.preemptions, made.lost_gpu_hours) == (1, pytest.approx(2 * 55 / 3600))
    assert Times.of(outcome).wait.tolist() == [0, 105]


def test_under_priority_order_an_urgent_job_preempts_a_preemptible_one() -> None:
    rules = Preemption(preempt=PreemptScope.PREEMPTIBLE, run_ms_min=0, grace_ms=7000)
    policy = Policy(order="priority", backfill=Backfill.EASY, preemption=rules)
    jobs = numbered([job(0, 1000, 2), replace(job(100, 50, 1), priority=Priority.HIGH)])
    outcome = run.simulate(jobs, pool(2), SimulationSettings(policy=policy, checkpoint_ms=30_000))
    assert outcome.preemptions == (1, 0)
    assert [started // SECOND_US for started in outcome.started_us] == [0, 107]
    # 90 s are kept; it restarts after the urgent job.
    assert ends_s(outcome) == [157 + 910, 157]


def test_a_job_is_preempted_when_its_minimum_run_time_is_over() -> None:
    rules = Preemption(preempt=PreemptScope.PREEMPTIBLE, run_ms_min=600_000, grace_ms=0)
    policy = Policy(order="priority", backfill=Backfill.EASY, preemption=rules)
    urgent = replace(job(100, 50, 1), priority=Priority.HIGH)
    jobs = numbered([job(0, 1000, 2), urgent, job(400, 1, 2), job(650, 1, 2)])
    outcome = run.simulate(jobs, pool(2), SimulationSettings(policy=policy))
    assert outcome.started_us[1] // SECOND_US == 600
    assert outcome.lost_ms[0] == 600_000
