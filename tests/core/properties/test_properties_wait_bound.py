"""A session that would exceed the policy's `wait_bound` is promoted early enough, and no earlier."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.plan import BacklogPeak
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.wait_bounds import order_bound_ms, order_bound_text
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Backfill, Weights
from aliquot_schema.sessions import DEFAULT_POOL, Priority
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, snapshot
from core_effort import examples
from core_plan_probe import encoded
from core_policies import every_order
from core_simulation import ClusterSimulation, Job
from core_speed_reference import without_shortcuts
from core_strategies import snapshots

SECOND_US = 1_000_000
START_US = 1_793_500_000_000_000
BOUND_S = 300
RUN_S = 20
HOUR_MS = 3_600_000
FAVOUR = Weights(age=1, fair=0, short=1000, priority=1000, sjf_age_pct=1)
"""Weights under which a wide session of low priority waits forever unless it is promoted."""


def waited_s(order: str, weights: Weights, shorts: list[tuple[int, int]]) -> float:
    """The wait of a session that wants all four GPUs, among favoured ones of one or two GPUs."""
    wide = row("wide", at=START_US, cuda_device="4", priority=Priority.LOW, limit_ms=RUN_S * 1000)
    works = [Job(row=replace(wide, estimate_ms=RUN_S * 1000), duration_ms=RUN_S * 1000)]
    at_us = START_US - 2 * RUN_S * SECOND_US
    for number, (gap_s, count) in enumerate(shorts):
        at_us += gap_s * SECOND_US
        fields = {"priority": Priority.CRITICAL, "estimate_ms": 1000, "limit_ms": RUN_S * 1000}
        short = row(f"s{number:03}", at=max(at_us, START_US + number), cuda_device=str(count), **fields)
        works.append(Job(row=short, duration_ms=RUN_S * 1000))
    simulation = ClusterSimulation(
        agents=(on("x", gpus(4)),),
        policy=Policy(order=order, backfill=Backfill.EASY, weights=weights),
        jobs=works,
        now_us=START_US,
    )
    simulation.run(lambda _: None, passes=2 * len(works) + 10)
    return (simulation.started_us[SessionId("wide")] - START_US) / SECOND_US


@pytest.mark.parametrize("order", ["sjf", "priority", "relative_age"])
@examples(20)
@given(shorts=st.lists(st.tuples(st.integers(1, 8), st.sampled_from([1, 2])), min_size=60, max_size=90))
def test_a_session_that_favoured_later_ones_would_pass_starts_within_the_bound(
    order: str, shorts: list[tuple[int, int]]
) -> None:
    bounded = replace(FAVOUR, wait_bound_ms=BOUND_S * 1000)
    assert waited_s(order, bounded, shorts) <= BOUND_S


def test_without_a_wait_bound_a_session_waits_until_all_favoured_sessions_are_served() -> None:
    shorts = [(4, 1)] * 150
    assert waited_s("priority", FAVOUR, shorts) > BOUND_S
    bounded = replace(FAVOUR, wait_bound_ms=BOUND_S * 1000)
    # Not immediately: the bound is used, minus the tenth of early promotion.
    assert 0.8 * BOUND_S <= waited_s("priority", bounded, shorts) <= BOUND_S


@every_order
@examples(15)
@given(state=snapshots())
def test_a_wait_bound_that_no_session_reaches_changes_nothing(order: str, state: Snapshot) -> None:
    policy = Policy(order=order, backfill=Backfill.EASY)
    bounded = replace(policy, weights=Weights(wait_bound_ms=3650 * 24 * HOUR_MS))
    assert encoded(decide(state, bounded, now_us=NOW_US, seed=0)) == encoded(
        decide(state, policy, now_us=NOW_US, seed=0)
    )


@examples(15)
@given(state=snapshots(), bound_ms=st.sampled_from([1, 60_000, HOUR_MS]))
def test_plans_with_promoted_sessions_do_not_depend_on_shortcuts(state: Snapshot, bound_ms: int) -> None:
    policy = Policy(order="sjf", backfill=Backfill.EASY, weights=Weights(wait_bound_ms=bound_ms))
    plan = decide(state, policy, now_us=NOW_US, seed=0)
    with without_shortcuts():
        assert encoded(decide(state, policy, now_us=NOW_US, seed=0)) == encoded(plan)


def test_promoted_sessions_start_in_the_order_of_submission() -> None:
    rows = [
        row("young", at=NOW_US - 30 * SECOND_US, cuda_device="1", estimate_ms=1),
        row("late", at=NOW_US - 95 * SECOND_US, cuda_device="1", estimate_ms=HOUR_MS),
        row("later", at=NOW_US - 120 * SECOND_US, cuda_device="1", estimate_ms=2 * HOUR_MS),
    ]
    state = snapshot([on("x", gpus(2))], rows)
    rules = Policy(order="sjf", weights=Weights(wait_bound_ms=100_000))
    assert list(placed(decide(state, rules, now_us=NOW_US, seed=0))) == ["later", "late"]
    assert list(placed(decide(state, Policy(order="sjf"), now_us=NOW_US, seed=0))) == ["young", "late"]


def test_a_session_does_not_start_ahead_of_one_that_it_would_delay_past_the_bound() -> None:
    """One GPU is free, the other in ten seconds: the wide session can have both well in time."""
    agents = [on("x", gpus(2))]
    first = decide(snapshot(agents, [row("runs", cuda_device="1")]), Policy(), now_us=NOW_US, seed=0)
    kernels = first.placements[0].kernels
    runs = RunningRow.of(SessionId("runs"), kernels, ends_us=NOW_US + 10 * SECOND_US, agents=agents)
    rows = [
        row("wide", at=NOW_US - 30 * SECOND_US, cuda_device="2", limit_ms=60_000),
        row("long", at=NOW_US, cuda_device="1", estimate_ms=1, limit_ms=1_000_000),
    ]
    used = {kernels[0].node_id: {device: 1000 for device in kernels[0].spec["cuda.device"]}}
    state = snapshot(agents, rows, used=used, running=(runs,))

    def plan(bound_ms: int) -> tuple[list[str], str | None]:
        rules = Policy(order="sjf", backfill=Backfill.EASY, weights=Weights(sjf_age_pct=1, wait_bound_ms=bound_ms))
        made = decide(state, rules, now_us=NOW_US, seed=0)
        return list(placed(made)), None if made.reservation is None else made.reservation.session_id

    assert plan(0) == (["long"], "wide")
    assert plan(60_000) == ([], "wide")


def test_the_bound_of_the_order_is_computed_from_the_weights_and_the_backlog() -> None:
    fair, relative = Policy(order="fair_share"), Policy(order="relative_age")
    assert order_bound_ms(fair, unit_ms=9 * HOUR_MS) == 9 * HOUR_MS * 9 // 4
    assert order_bound_ms(relative, unit_ms=9 * HOUR_MS) == 18 * HOUR_MS
    assert order_bound_ms(Policy(order="fcfs"), unit_ms=9 * HOUR_MS) == 0
    assert order_bound_ms(Policy(order="sjf"), unit_ms=9 * HOUR_MS, estimate_ms=HOUR_MS) == 10 * HOUR_MS
    assert order_bound_text(relative, unit_ms=9 * HOUR_MS) == (
        "No session of the same priority that came more than 18 h later starts before an earlier one by order, unless "
        "it asks for a larger part of the pool. Once a session is first, backfill delays it only if other sessions run "
        "longer than planned."
    )
    assert order_bound_text(Policy(order="sjf"), unit_ms=1).startswith(
        "No session that came later by more than 10 times the expected run time of an earlier one starts"
    )
    bounded = replace(fair, weights=Weights(wait_bound_ms=48 * HOUR_MS))
    assert order_bound_text(bounded, unit_ms=1).endswith(
        "A session that would wait longer than 2 d is moved to the front."
    )
    for order in ("las", "srtf"):
        assert order_bound_ms(Policy(order=order), unit_ms=1, estimate_ms=HOUR_MS) is None
        promised = order_bound_text(Policy(order=order), unit_ms=1, estimate_ms=HOUR_MS)
        assert promised.startswith(f"The order {order} alone bounds no wait")


@pytest.mark.parametrize("order", ["fair_share", "relative_age"])
@examples(40)
@given(
    weights=st.builds(Weights, age=st.integers(1, 9), fair=st.integers(0, 9), short=st.integers(0, 9)),
    waited_ms=st.integers(0, 10**9),
    estimates=st.tuples(st.sampled_from([1, 3 * HOUR_MS]), st.sampled_from([1, 3 * HOUR_MS])),
)
def test_a_session_submitted_later_than_the_bound_is_not_ahead(
    order: str, weights: Weights, waited_ms: int, estimates: tuple[int, int]
) -> None:
    policy = Policy(order=order, weights=weights)
    peak = BacklogPeak(8 * HOUR_MS, NOW_US)
    bound_ms = order_bound_ms(policy, unit_ms=9 * HOUR_MS)
    assert bound_ms is not None
    later_us = NOW_US - waited_ms * 1000
    rows = [
        row("z", at=later_us - (bound_ms + 70) * 1000, cuda_device="1", estimate_ms=estimates[0]),
        row("a", at=later_us, cuda_device="1", estimate_ms=estimates[1]),
    ]
    state = snapshot([on("x", gpus(1))], rows, backlogs={DEFAULT_POOL: peak})
    assert list(placed(decide(state, policy, now_us=NOW_US, seed=0))) == ["z"]
