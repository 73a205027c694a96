"""Preemption: no more sessions than needed are preempted, and the devices stay for the claimant."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE, RunningRow
from aliquot_schema.ids import PoolId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import PreemptionCause, Priority
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, waits
from ordering_scenes import busy, passed, runs

RULES = Preemption(preempt=PreemptScope.ANY, run_ms_min=60_000, preemptions_max=2, grace_ms=30_000)
POLICY = Policy(order="priority", backfill=Backfill.EASY, preemption=RULES)
FOUR = on("x", gpus(4))


def holding(name: str, *devices: int, agent: Any = FOUR, **fields: Any) -> RunningRow:
    plain = runs(name, agent, {"cuda.device": {f"cuda{index}": 1 for index in devices}}, ends_in_s=3600)
    known: dict[str, Any] = {"started_us": 0, "priority": Priority.LOW, "version": 3, "estimate_ms": 7_200_000}
    return replace(plain, **(known | fields))


def urgent(name: str, **fields: Any) -> Any:
    return row(name, priority=Priority.CRITICAL, **fields)


def evicted(plan: Plan) -> list[str]:
    return [str(eviction.session_id) for eviction in plan.evictions]


def test_only_the_session_with_most_work_left_is_preempted() -> None:
    running = [
        holding("short", 0, 1, estimate_ms=1_100_000),
        holding("long", 2, 3, estimate_ms=9_000_000),
    ]
    plan = passed(busy([FOUR], running, [urgent("a", cuda_device="2")]), POLICY)
    assert placed(plan) == []
    (eviction,) = plan.evictions
    assert (eviction.session_id, eviction.version, eviction.cause) == ("long", 3, PreemptionCause.PRIORITY)
    assert (eviction.by_session, eviction.grace_ms) == ("a", 30_000)
    verdict = waits(plan, "a")
    assert verdict.reason is Reason.MAKING_ROOM
    assert (verdict.evidence.blocked_by, verdict.evidence.until_us) == (("long",), NOW_US + 30_000_000)


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": Priority.CRITICAL},
        {"started_us": NOW_US - 59_000_000},
        {"started_us": None},
        {"preemptions": 2},
    ],
    ids=["same level", "ran too short", "not started", "made room twice"],
)
def test_sessions_of_the_same_priority_or_protected_by_a_limit_are_not_preempted(fields: dict[str, Any]) -> None:
    plan = passed(busy([FOUR], [holding("b", 0, 1, 2, 3, **fields)], [urgent("a")]), POLICY)
    assert evicted(plan) == []
    assert waits(plan, "a").reason is Reason.INSUFFICIENT


def test_sessions_that_are_not_preemptible_are_not_preempted() -> None:
    willing = replace(POLICY, preemption=replace(RULES, preempt=PreemptScope.PREEMPTIBLE))
    running = [holding("no", 0, 1), holding("yes", 2, 3, is_preemptible=True, estimate_ms=1)]
    assert evicted(passed(busy([FOUR], running, [urgent("a")]), willing)) == ["yes"]
    assert evicted(passed(busy([FOUR], running, [urgent("a", cuda_device="3")]), willing)) == []


@pytest.mark.parametrize("order", ["fcfs", "fair_share", "sjf"])
def test_other_orders_do_not_preempt_by_priority(order: str) -> None:
    plan = passed(busy([FOUR], [holding("b", 0, 1, 2, 3)], [urgent("a")]), replace(POLICY, order=order))
    assert evicted(plan) == []


def test_devices_of_a_leaving_session_are_kept_and_no_more_sessions_are_preempted() -> None:
    leaving = holding("b", 0, 1, is_leaving=True, ends_us=NOW_US + 5_000_000)
    running = [leaving, holding("c", 2, priority=Priority.HIGH)]
    queue = [urgent("a", cuda_device="3"), row("later", at=5, priority=Priority.HIGH)]
    plan = passed(busy([FOUR], running, queue), POLICY)
    assert (placed(plan), evicted(plan)) == ([], [])
    assert waits(plan, "a").evidence.blocked_by == ("b",)
    assert waits(plan, "later").reason is not Reason.MAKING_ROOM


def test_each_preempting_session_gets_victims_of_its_own() -> None:
    running = [holding(name, index) for index, name in enumerate("bcde")]
    plan = passed(busy([FOUR], running, [urgent("a"), urgent("z", at=1, cuda_device="2")]), POLICY)
    assert len(set(evicted(plan))) == 3
    assert [eviction.by_session for eviction in plan.evictions] == ["a", "z", "z"]


def test_a_later_session_preempts_none_when_a_third_one_starts_beside_the_first() -> None:
    """The device of a session preempted for it would be missing when the first session is to start."""
    running = [holding("low", 0, ends_us=NOW_US + 100_000_000), holding("firm", 1, 2, priority=Priority.CRITICAL)]
    first = urgent("first", cuda_device="4")
    short = urgent("short", at=1, limit_ms=50_000)
    later = row("later", at=2, priority=Priority.HIGH)
    plan = passed(busy([FOUR], running, [first, short, later]), POLICY)
    assert (placed(plan), evicted(plan)) == (["short"], [])
    assert waits(plan, "later").reason is Reason.INSUFFICIENT


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_the_first_session_of_each_pool_may_preempt(backfill: Backfill) -> None:
    other = replace(on("y", gpus(1)), pool=PoolId("other"))
    running = [holding("firm", 0, 1, 2, 3, priority=Priority.CRITICAL), holding("low", 0, agent=other)]
    there = replace(ANYWHERE, pool=PoolId("other"))
    queue = [urgent("first"), urgent("theirs", at=1, where=there), urgent("next", at=2, where=there)]
    plan = passed(busy([FOUR, other], running, queue), replace(POLICY, backfill=backfill))
    assert [(one.session_id, one.by_session) for one in plan.evictions] == [("low", "theirs")]
