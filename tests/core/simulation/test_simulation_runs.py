"""Runs of small traces: reports, and properties of every run."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.ordering import ORDERS
from aliquot.core.simulation.cluster import Estimates, SimulationSettings, nodes, pool
from aliquot.core.simulation.report import Outcome, report
from aliquot.core.simulation.run import simulate
from aliquot.core.simulation.trace import SECOND_US, Job, gpu_request, in_gangs, load, numbered, window
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import Backfill
from aliquot_schema.resources.slots import MILLI
from core_effort import examples

POLICIES = [
    Policy(order=order, backfill=backfill, placement="first_fit") for order in sorted(ORDERS) for backfill in Backfill
]


def job(submit_s: int, duration_s: int, gpus: int, *, group: str = "a", limit_s: int | None = None) -> Job:
    return Job(
        id=SessionId(""),
        user=UserId(group),
        project=ProjectId(group),
        submit_us=submit_s * SECOND_US,
        duration_ms=duration_s * 1000,
        request=gpu_request(gpus * MILLI),
        limit_ms=None if limit_s is None else limit_s * 1000,
    )


def starts_s(outcome: Outcome) -> list[int]:
    return [started // SECOND_US for started in outcome.started_us]


@st.composite
def traces(draw: st.DrawFn) -> tuple[Job, ...]:
    """Up to twelve jobs on at most four GPUs each; jobs stay within their limits, if any."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        duration_s = draw(st.integers(1, 60))
        limit_s = draw(st.sampled_from([None, duration_s, duration_s + 20]))
        size = draw(st.integers(1, 4))
        found.append(
            job(draw(st.integers(0, 80)), duration_s, size, group=draw(st.sampled_from("ab")), limit_s=limit_s)
        )
    return numbered(found)


def test_easy_backfill_starts_jobs_that_do_not_delay_the_head_and_fcfs_does_not() -> None:
    jobs = numbered([job(0, 100, 3), job(1, 50, 4), job(2, 90, 1), job(3, 300, 1)])
    strict = SimulationSettings(policy=Policy(), estimates=Estimates.EXACT)
    assert starts_s(simulate(jobs, pool(4), strict)) == [0, 100, 150, 150]
    easy = replace(strict, policy=Policy(backfill=Backfill.EASY))
    assert starts_s(simulate(jobs, pool(4), easy)) == [0, 100, 2, 150]


def test_a_job_must_fit_on_one_node_except_in_a_pool() -> None:
    jobs = numbered([job(0, 10, 1), job(0, 10, 1), job(0, 10, 2)])
    spread = SimulationSettings(policy=Policy(placement="spread"))
    assert starts_s(simulate(jobs, nodes(2, gpus_each=2), spread)) == [0, 0, 10]
    assert starts_s(simulate(jobs, pool(4), spread)) == [0, 0, 0]


def test_a_job_that_can_never_run_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"asks for 3 cuda\.device"):
        simulate(numbered([job(0, 1, 3)]), nodes(2, gpus_each=2), SimulationSettings(policy=Policy()))


@pytest.mark.parametrize(
    ("gpus", "kernels", "each"), [(1, 1, 1), (8, 1, 8), (9, 3, 3), (16, 2, 8), (20, 4, 5), (17, 17, 1), (128, 16, 8)]
)
def test_a_job_wider_than_a_node_is_a_gang_of_the_fewest_equal_kernels(gpus: int, kernels: int, each: int) -> None:
    (found,) = in_gangs([job(0, 10, gpus)], gpus_each=8)
    assert (found.cluster_size, found.request) == (kernels, gpu_request(each * MILLI))
    assert found.milli == gpus * MILLI
    (twice,) = in_gangs([replace(job(0, 10, gpus), cluster_size=2)], gpus_each=8)
    assert (twice.cluster_size, twice.request) == (2 * kernels, found.request)


def test_gangs_run_on_several_nodes_and_shares_stay_as_they_are() -> None:
    share = replace(job(0, 5, 1), request=gpu_request(250))
    jobs = numbered(in_gangs([job(0, 10, 4), share], gpus_each=2))
    assert jobs[1].request == gpu_request(250)
    assert starts_s(simulate(jobs, nodes(2, gpus_each=2), SimulationSettings(policy=Policy()))) == [0, 10]


def test_the_report_of_a_small_run_equals_figures_computed_by_hand() -> None:
    jobs = numbered([job(0, 100, 2), job(10, 40, 1, group="b"), job(10, 2, 2, group="b")])
    outcome = simulate(jobs, pool(2), SimulationSettings(policy=Policy(), estimates=Estimates.NONE))
    assert starts_s(outcome) == [0, 100, 140]
    made = report(outcome)
    assert (made.jct.mean_s, made.jct.max_s, made.wait.max_s) == ((100 + 130 + 132) / 3, 132, 130)
    assert made.slowdown_mean == pytest.approx((1 + 130 / 40 + 132 / 10) / 3)
    assert made.utilization_pct == pytest.approx(100 * (90 * 2 + 40 * 1) / (130 * 2))
    assert [(group.project, group.jobs) for group in made.groups] == [("a", 1), ("b", 2)]
    assert made.fairness == pytest.approx((1 + 8.225) ** 2 / (2 * (1 + 8.225**2)))


def test_a_trace_is_cut_to_a_window_and_its_load_is_computed() -> None:
    jobs = numbered([job(5, 10, 1), job(0, 10, 1), job(20, 10, 2)])
    assert [one.submit_us // SECOND_US for one in jobs] == [0, 5, 20]
    assert [one.submit_us // SECOND_US for one in window(jobs, from_s=5, until_s=20)] == [5]
    assert load(jobs, gpus=2) == 1.0


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: f"{one.order}-{one.backfill}")
@examples(20)
@given(jobs=traces(), estimates=st.sampled_from(Estimates))
def test_every_job_runs_once_and_no_gpu_is_given_twice(
    policy: Policy, jobs: tuple[Job, ...], estimates: Estimates
) -> None:
    made_with = SimulationSettings(policy=policy, estimates=estimates)
    outcome = simulate(jobs, pool(4), made_with)
    assert len(outcome.started_us) == len(jobs)
    assert all(started >= one.submit_us for one, started in zip(jobs, outcome.started_us, strict=True))
    for moment in outcome.started_us:
        assert _held(outcome, moment) <= 4 * MILLI
    assert simulate(jobs, pool(4), made_with) == outcome


@examples(50)
@given(jobs=traces())
def test_under_easy_with_exact_limits_later_jobs_do_not_delay_the_head(jobs: tuple[Job, ...]) -> None:
    """Under FCFS, no later job delays the head; here the head is the first job that waits."""
    made_with = SimulationSettings(policy=Policy(backfill=Backfill.EASY), estimates=Estimates.EXACT)
    outcome = simulate(jobs, pool(4), made_with)
    waited = [index for index, one in enumerate(jobs) if outcome.started_us[index] > one.submit_us]
    if waited:
        alone = simulate(jobs[: waited[0] + 1], pool(4), made_with)
        assert outcome.started_us[waited[0]] <= alone.started_us[waited[0]]


@examples(50)
@given(jobs=traces())
def test_easy_backfill_delays_no_job_before_the_first_wait_under_strict_order(jobs: tuple[Job, ...]) -> None:
    """Up to the first wait under strict order, no job waits under EASY either."""
    strict = simulate(jobs, pool(4), SimulationSettings(policy=Policy()))
    easy = simulate(jobs, pool(4), SimulationSettings(policy=Policy(backfill=Backfill.EASY)))
    for one, before, now in zip(jobs, strict.started_us, easy.started_us, strict=True):
        if before > one.submit_us:
            return
        assert now == before


def _held(outcome: Outcome, moment: int) -> int:
    ran: Sequence[tuple[Job, int]] = list(zip(outcome.jobs, outcome.started_us, strict=True))
    return sum(one.milli for one, began in ran if began <= moment < began + one.duration_ms * 1000)


@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[-1]], ids=lambda policy: f"{policy.order}, {policy.backfill}")
def test_a_simulation_passes_the_snapshot_of_each_pass_to_a_callback(policy: Policy) -> None:
    jobs = numbered([job(0, 100, 3), job(1, 50, 4), job(2, 90, 1), job(3, 300, 1), job(150, 20, 2, limit_s=30)])
    settings = SimulationSettings(policy=policy)
    decided: dict[SessionId, int] = {}

    def look(now_us: int, snapshot: Snapshot) -> None:
        plan = decide(snapshot, policy, now_us=now_us, seed=settings.seed)
        decided.update((placement.session_id, now_us) for placement in plan.placements)

    watched = simulate(jobs, pool(4), settings, on_pass=look)
    assert watched == simulate(jobs, pool(4), settings)
    assert decided == dict(zip((one.id for one in jobs), watched.started_us, strict=True))
