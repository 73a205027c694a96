"""`las` and `srtf`: the order, and preemption only if the gain exceeds the loss."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.foresight.remedies import remedies
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, RunningRow
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.ordering import LAS_QUANTUM_MS, PREEMPTIVE, las_levels, left_ms
from aliquot.core.simulation.cluster import SimulationSettings, pool
from aliquot.core.simulation.report import Outcome
from aliquot.core.simulation.run import simulate
from aliquot.core.simulation.trace import SECOND_US, Job, gpu_request, numbered
from aliquot_schema.ids import ProjectId, SessionId, UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.reasons import RemedyKind
from aliquot_schema.sessions import PreemptionCause
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row
from core_effort import examples
from ordering_scenes import busy, runs

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
RULES = Preemption(run_ms_min=10 * MINUTE_MS, preemptions_max=2, grace_ms=30_000, restart_ms=MINUTE_MS)
TWO = on("x", gpus(2))


def on_both(name: str, agent: AgentRow) -> RunningRow:
    """A session that holds both GPUs of an agent."""
    return runs(name, agent, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=36_000)


def running(**more: Any) -> RunningRow:
    """A session on both GPUs for an hour, with ten more expected and a checkpoint every ten minutes."""
    known: dict[str, Any] = {
        "started_us": NOW_US - HOUR_MS * 1000,
        "estimate_ms": 11 * HOUR_MS,
        "is_preemptible": True,
        "checkpoint_ms": 10 * MINUTE_MS,
    }
    return replace(on_both("long", TWO), **known | more)


def evicted(held: RunningRow, *, order: str = "srtf", rules: Preemption = RULES, **asked: Any) -> list[str]:
    """Sessions preempted for a one-GPU session with an estimate of half an hour."""
    short = row("short", **{"cuda_device": "1", "estimate_ms": 30 * MINUTE_MS} | asked)
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=rules)
    plan = decide(busy([TWO], [held], [short]), policy, now_us=NOW_US, seed=0)
    assert {eviction.cause for eviction in plan.evictions} <= {PreemptionCause.ORDER}
    return [eviction.session_id for eviction in plan.evictions]


@pytest.mark.parametrize("order", PREEMPTIVE)
def test_a_long_session_is_displaced_by_a_short_one(order: str) -> None:
    assert evicted(running(), order=order) == ["long"]


@pytest.mark.parametrize("order", PREEMPTIVE)
@pytest.mark.parametrize(
    "kept_back",
    [
        {"is_preemptible": False},
        {"preemptions": 2},
        {"started_us": NOW_US - 9 * MINUTE_MS * 1000, "kept_ms": 5 * HOUR_MS},
        {"is_leaving": True},
    ],
    ids=["not preemptible", "preempted often enough", "within run_min", "leaving already"],
)
def test_sessions_protected_from_preemption_are_not_displaced(order: str, kept_back: dict[str, Any]) -> None:
    assert evicted(running(**kept_back), order=order) == []


@pytest.mark.parametrize("order", PREEMPTIVE)
def test_a_session_that_may_not_be_preempted_is_left_alone_whatever_the_scope(order: str) -> None:
    assert evicted(running(is_preemptible=False), order=order, rules=replace(RULES, preempt=PreemptScope.ANY)) == []
    assert evicted(running(), order=order, rules=replace(RULES, preempt=PreemptScope.NONE)) == []


@pytest.mark.parametrize(
    ("left_min", "since_checkpoint_min", "is_displaced"),
    [(40, 0, True), (31, 0, False), (32, 0, True), (33, 1, True), (32, 1, False), (29, 0, False)],
)
def test_srtf_displaces_only_if_the_gain_exceeds_the_loss(
    left_min: int, since_checkpoint_min: int, is_displaced: bool
) -> None:
    """The loss is the work since the last checkpoint, 30 s of grace and a minute of restart."""
    ran_ms = HOUR_MS + since_checkpoint_min * MINUTE_MS
    held = running(started_us=NOW_US - ran_ms * 1000, estimate_ms=ran_ms + left_min * MINUTE_MS)
    assert evicted(held) == (["long"] if is_displaced else [])


@pytest.mark.parametrize("order", PREEMPTIVE)
@pytest.mark.parametrize(
    ("interval_min", "unsaved_min", "wakes_in_min"),
    [(10, 1, None), (10, 2, 8), (10, 9, 1), (100, 50, None), (100, 95, 5)],
    ids=["just saved", "wait", "about to save", "too long to wait", "worth waiting"],
)
def test_a_session_is_displaced_right_after_a_checkpoint(
    order: str, interval_min: int, unsaved_min: int, wakes_in_min: int | None
) -> None:
    """Not preempted before a checkpoint within ten minutes; the scheduler wakes then."""
    ran_ms = (6 * interval_min + unsaved_min) * MINUTE_MS
    started = {"started_us": NOW_US - ran_ms * 1000, "estimate_ms": 2 * ran_ms}
    held = running(checkpoint_ms=interval_min * MINUTE_MS, **started)
    short = row("short", cuda_device="1", estimate_ms=MINUTE_MS)
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=RULES)
    plan = decide(busy([TWO], [held], [short]), policy, now_us=NOW_US, seed=0)
    assert len(plan.evictions) == (wakes_in_min is None)
    assert plan.wake_at_us == (None if wakes_in_min is None else NOW_US + wakes_in_min * 60 * SECOND_US)


@pytest.mark.parametrize("order", PREEMPTIVE)
def test_the_scheduler_looks_again_when_the_minimum_run_time_is_over(order: str) -> None:
    held = running(started_us=NOW_US - 9 * MINUTE_MS * 1000, kept_ms=5 * HOUR_MS)
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=RULES)
    plan = decide(busy([TWO], [held], [row("short", cuda_device="1")]), policy, now_us=NOW_US, seed=0)
    assert (plan.evictions, plan.wake_at_us) == ((), NOW_US + 60 * SECOND_US)


@pytest.mark.parametrize(
    ("order", "ran_min", "checkpoint_min", "wakes_min"),
    [
        ("las", 6, 0, 11.5),
        ("las", 11.5, 0, None),
        ("las", 6, 4, 11.5),
        ("las", 11.6, 4, 12),
        ("las", 6, None, None),
        ("srtf", 6, 0, 25),
        ("srtf", 12.5, 0, None),
        ("srtf", 6, None, None),
    ],
)
def test_the_scheduler_looks_again_when_the_gain_exceeds_the_loss(
    order: str, ran_min: float, checkpoint_min: int | None, wakes_min: float | None
) -> None:
    """`las` expects as much again as it has run; `srtf` a fifth of that, once the prediction of 2 minutes is over, and
    looks again when the gain is twice what it has to exceed."""
    checkpoint_ms = None if checkpoint_min is None else checkpoint_min * MINUTE_MS
    started_us = NOW_US - round(ran_min * MINUTE_MS) * 1000 - 5000
    held = running(started_us=started_us, estimate_ms=2 * MINUTE_MS, checkpoint_ms=checkpoint_ms)
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=replace(RULES, run_ms_min=0))
    short = row("short", cuda_device="2", estimate_ms=MINUTE_MS)
    plan = decide(busy([TWO], [held], [short]), policy, now_us=NOW_US, seed=0)
    assert len(plan.evictions) == (wakes_min is None and checkpoint_min is not None)
    wakes_s = None if plan.wake_at_us is None else (plan.wake_at_us - started_us) // SECOND_US
    assert wakes_s == (None if wakes_min is None else wakes_min * 60)


@pytest.mark.parametrize("order", PREEMPTIVE)
@pytest.mark.parametrize(("waited_s", "wakes_in_s"), [(0, 90), (89, 1), (90, None)])
def test_a_session_waits_as_long_as_grace_and_restart_take_before_it_displaces_another(
    order: str, waited_s: int, wakes_in_s: int | None
) -> None:
    short = row("short", at=NOW_US - waited_s * SECOND_US, cuda_device="1", estimate_ms=MINUTE_MS)
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=RULES)
    plan = decide(busy([TWO], [running()], [short]), policy, now_us=NOW_US, seed=0)
    assert len(plan.evictions) == (wakes_in_s is None)
    assert plan.wake_at_us == (None if wakes_in_s is None else NOW_US + wakes_in_s * SECOND_US)


@pytest.mark.parametrize("order", PREEMPTIVE)
@pytest.mark.parametrize(("ends_min", "preemptions"), [(70, 0), (80, 1)])
def test_no_session_is_displaced_if_devices_become_free_during_the_wait(
    order: str, ends_min: int, preemptions: int
) -> None:
    """The short job arrives a minute before a checkpoint of the long one, and waits 90 s at most."""
    found = course(order, [(0, 600, 2, True), (0, ends_min, 2, False), (69, 5, 2, True)])
    assert found.preemptions == (preemptions, 0, 0)
    assert found.started_us[2] == (71 if preemptions else 70) * 60 * SECOND_US


def test_a_checkpoint_that_is_overdue_is_not_waited_for() -> None:
    assert evicted(running(saved_ms=30 * MINUTE_MS)) == ["long"]
    assert evicted(running(saved_ms=51 * MINUTE_MS)) == []


def test_without_checkpoints_all_of_the_work_is_lost_and_with_a_signal_none_of_it() -> None:
    held = running(estimate_ms=2 * HOUR_MS, checkpoint_ms=None)
    assert evicted(held) == []
    assert evicted(replace(held, checkpoint_ms=0)) == ["long"]
    assert evicted(replace(held, kept_ms=20 * MINUTE_MS, checkpoint_ms=0)) == ["long"]


def test_the_session_whose_displacement_gains_most_is_displaced() -> None:
    near = replace(running(estimate_ms=3 * HOUR_MS), session_id=SessionId("near"))
    far = replace(running(), session_id=SessionId("far"))
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    held = [
        replace(near, kernels=on_both("near", agents[0]).kernels),
        replace(far, kernels=on_both("far", agents[1]).kernels),
    ]
    short = row("short", cuda_device="1", estimate_ms=MINUTE_MS)
    policy = Policy(order="srtf", backfill=Backfill.EASY, preemption=RULES)
    plan = decide(busy(agents, held, [short]), policy, now_us=NOW_US, seed=0)
    assert [eviction.session_id for eviction in plan.evictions] == ["far"]


def test_srtf_starts_the_session_with_the_least_work_left_after_its_checkpoint() -> None:
    rows = [
        row("long", at=1, cuda_device="2", estimate_ms=5 * HOUR_MS),
        replace(row("resumed", at=2, cuda_device="2", estimate_ms=6 * HOUR_MS), kept_ms=5 * HOUR_MS),
        row("short", at=3, cuda_device="2", estimate_ms=2 * HOUR_MS),
    ]
    assert list(placed(decide(busy([TWO], [], rows), Policy(order="srtf"), now_us=NOW_US, seed=0))) == ["resumed"]


def test_las_starts_the_session_with_the_least_service_and_the_oldest_within_a_level() -> None:
    rows = [
        replace(row("had much", at=1, cuda_device="2"), kept_ms=4 * LAS_QUANTUM_MS),
        replace(row("had some", at=2, cuda_device="2"), kept_ms=LAS_QUANTUM_MS // 4),
        row("new", at=3, cuda_device="2"),
    ]
    assert list(placed(decide(busy([TWO], [], rows), Policy(order="las"), now_us=NOW_US, seed=0))) == ["had some"]
    levels = las_levels(np.array([0, 10, 20, 40, 10]) * MINUTE_MS, milli=np.array([1000, 1000, 1000, 1000, 4000]))
    assert levels.tolist() == [0, 1, 2, 3, 3]


def test_las_does_not_displace_a_session_of_the_same_level() -> None:
    asked = {"kept_ms": 50 * MINUTE_MS}
    short = replace(row("short", cuda_device="2"), **asked)
    policy = Policy(order="las", backfill=Backfill.EASY, preemption=RULES)
    held = running(checkpoint_ms=0)
    assert not decide(busy([TWO], [held], [short]), policy, now_us=NOW_US, seed=0).evictions
    assert decide(busy([TWO], [held], [replace(short, kept_ms=0)]), policy, now_us=NOW_US, seed=0).evictions


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=9),
    st.sampled_from(PREEMPTIVE),
)
def test_the_remaining_time_of_a_session_is_always_positive(cases: list[tuple[int, int]], order: str) -> None:
    expected, had = np.array(cases, dtype=np.int64).T
    left = left_ms(order, expected_ms=expected, had_ms=had)
    assert (left > 0).all()
    if order == "srtf":
        assert (left >= expected - had).all()


def course(order: str, works: list[tuple[int, int, int, bool]], *, rules: Preemption = RULES) -> Outcome:
    """Jobs of (submitted, run time, GPUs, preemptible) in minutes on four GPUs, exact limits."""
    jobs = numbered(
        Job(
            id=SessionId(""),
            user=UserId("ann"),
            project=ProjectId("lab"),
            submit_us=submitted * 60 * SECOND_US,
            duration_ms=minutes * MINUTE_MS,
            request=gpu_request(count * 1000),
            limit_ms=minutes * MINUTE_MS,
            preemptible=preemptible,
        )
        for submitted, minutes, count, preemptible in works
    )
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=rules, placement="first_fit")
    settings = SimulationSettings(policy=policy, checkpoint_ms=10 * MINUTE_MS, restart_ms=rules.restart_ms)
    return simulate(jobs, pool(4), settings)


def test_a_short_job_displaces_a_long_one_which_resumes_from_its_checkpoint() -> None:
    found = course("srtf", [(0, 600, 4, True), (65, 20, 4, True)])
    minutes = [(ended - job.submit_us) / 60e6 for job, ended in zip(found.jobs, found.ended_us, strict=True)]
    # It starts after the next checkpoint, in 5 min; the grace of 30 s and a restart of 1 min are lost.
    assert found.preemptions == (1, 0)
    assert found.lost_ms == (30_000 + MINUTE_MS, 0)
    assert minutes[1] == 5 + 20.5
    assert minutes[0] == 600 + 20 + 0.5 + 1


def test_srtf_starts_a_wide_session_after_a_narrow_one_of_the_same_length() -> None:
    rows = [
        row("wide", at=1, cuda_device="2", estimate_ms=HOUR_MS),
        row("narrow", at=2, cuda_device="1", estimate_ms=HOUR_MS + 20 * MINUTE_MS),
    ]
    assert list(placed(decide(busy([TWO], [], rows), Policy(order="srtf"), now_us=NOW_US, seed=0))) == ["narrow"]
    shorter = replace(rows[0], estimate_ms=50 * MINUTE_MS)
    assert list(placed(decide(busy([TWO], [], [shorter, rows[1]]), Policy(order="srtf"), now_us=NOW_US, seed=0))) == [
        "wide"
    ]


@pytest.mark.parametrize("order", PREEMPTIVE)
@examples(25)
@given(
    works=st.lists(
        st.tuples(st.integers(0, 600), st.sampled_from([1, 15, 40, 200, 900]), st.integers(1, 4), st.booleans()),
        min_size=1,
        max_size=25,
    )
)
def test_the_limits_of_preemption_hold_and_all_work_is_done(
    order: str, works: list[tuple[int, int, int, bool]]
) -> None:
    found = course(order, works)
    for job, preemptions, lost_ms, started, ended in zip(
        found.jobs, found.preemptions, found.lost_ms, found.started_us, found.ended_us, strict=True
    ):
        assert preemptions <= (RULES.preemptions_max if job.preemptible else 0)
        assert ended - started >= (job.duration_ms + lost_ms) * 1000
        # Less than a checkpoint interval, grace and restart per preemption.
        assert lost_ms < preemptions * (10 * MINUTE_MS + RULES.grace_ms + RULES.restart_ms) + 1


@pytest.mark.parametrize(
    ("order", "kind", "asked"),
    [
        ("srtf", RemedyKind.TIME_LIMIT, {"cuda_device": "1", "limit_ms": 20 * HOUR_MS}),
        ("las", RemedyKind.FEWER_GPUS, {"cuda_device": "2", "kept_ms": 50 * MINUTE_MS}),
    ],
)
def test_a_change_with_which_a_session_displaces_another_one_is_a_remedy(
    order: str, kind: RemedyKind, asked: dict[str, Any]
) -> None:
    waiting = row("waits", **asked)
    state = busy([TWO], [running()], [waiting])
    policy = Policy(order=order, backfill=Backfill.EASY, preemption=RULES)
    assert not decide(state, policy, now_us=NOW_US, seed=0).evictions
    found = {one.change.kind: one.preempts for one in remedies(waiting, state, policy, now_us=NOW_US)}
    assert found[kind] == ("long",)
