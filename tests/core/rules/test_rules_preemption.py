"""Edge cases of preemption: the victims, their order, the claimant, and no double requests."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.scheduler.preemption import TRIES_MAX
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import ResourceSlot
from aliquot_schema.sessions import Priority
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, waits
from ordering_scenes import SECOND_US, busy, passed, runs

RULES = Preemption(preempt=PreemptScope.ANY, run_ms_min=60_000, preemptions_max=2, grace_ms=30_000)
POLICY = Policy(order="priority", backfill=Backfill.EASY, preemption=RULES)
TWO = on("x", gpus(2))
FOUR = on("x", gpus(4))
HOUR_MS = 3_600_000


def holding(name: str, *devices: int, **fields: Any) -> RunningRow:
    plain = runs(name, FOUR, {"cuda.device": {f"cuda{index}": 1 for index in devices}}, ends_in_s=3600)
    known: dict[str, Any] = {"started_us": NOW_US - 600 * SECOND_US, "priority": Priority.LOW}
    return replace(plain, **(known | fields))


def urgent(name: str, **fields: Any) -> Any:
    return row(name, priority=Priority.CRITICAL, owner=UserId("ann"), **fields)


def evicted(plan: Plan) -> list[str]:
    return [str(eviction.session_id) for eviction in plan.evictions]


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        ({"estimate_ms": 2 * HOUR_MS}, {}, "a"),
        ({"estimate_ms": HOUR_MS // 2}, {}, "b"),
        ({}, {}, "a"),
        ({"started_us": NOW_US - 601 * SECOND_US}, {}, "b"),
        ({"estimate_ms": 2 * HOUR_MS, "started_us": NOW_US - 2 * 3_600 * SECOND_US}, {}, "b"),
        ({"estimate_ms": 0}, {"estimate_ms": 5}, "a"),
        ({"started_us": NOW_US - 600 * SECOND_US - 400}, {}, "a"),
        (
            {"estimate_ms": 7_200_000},
            {"estimate_ms": 6_660_001, "started_us": NOW_US - 60 * SECOND_US},
            "b",
        ),
    ],
    ids=["longer", "shorter", "alike", "older", "nearly over", "both over", "less than a moment", "a moment longer"],
)
def test_the_session_with_the_most_time_left_is_preempted(
    first: dict[str, Any], second: dict[str, Any], asked: str
) -> None:
    """Without an estimate, an hour is assumed; ties are broken by the lower name."""
    running = [holding("b", 2, 3, **second), holding("a", 0, 1, **first)]
    assert evicted(passed(busy([FOUR], running, [urgent("u", cuda_device="2")]), POLICY)) == [asked]


@pytest.mark.parametrize("asks", [1, 2, 3, 4])
def test_as_many_sessions_as_needed_are_preempted_beginning_with_the_most_time_left(asks: int) -> None:
    running = [holding(f"r{index}", index, estimate_ms=(9 - index) * HOUR_MS) for index in range(4)]
    plan = passed(busy([FOUR], running, [urgent("u", cuda_device=str(asks))]), POLICY)
    assert sorted(evicted(plan)) == [f"r{index}" for index in range(asks)]


def test_remaining_work_is_multiplied_by_the_number_of_devices() -> None:
    running = [holding("wide", 0, 1, 2, estimate_ms=1_000_000), holding("narrow", 3, estimate_ms=1_700_000)]
    assert evicted(passed(busy([FOUR], running, [urgent("u")]), POLICY)) == ["wide"]
    running = [holding("wide", 0, 1, 2, estimate_ms=1_000_000), holding("narrow", 3, estimate_ms=1_900_000)]
    assert evicted(passed(busy([FOUR], running, [urgent("u")]), POLICY)) == ["narrow"]


def test_overdue_sessions_count_alike_regardless_of_their_devices() -> None:
    running = [holding("narrow", 3, estimate_ms=0), holding("wide", 0, 1, 2, estimate_ms=0)]
    assert evicted(passed(busy([FOUR], running, [urgent("u")]), POLICY)) == ["narrow"]


def test_priority_gives_no_right_to_preempt_a_borrower_of_the_same_level() -> None:
    name = quota_id(QuotaScope.PROJECT, "owner")
    own = ResourceSlot({"cuda.device": 2})
    quotas = {name: Quota(id=name, scope=QuotaScope.PROJECT, name="owner", own_slots=own)}
    running = [holding("a", 0, 1, 2, 3, priority=Priority.CRITICAL)]
    assert evicted(passed(busy([FOUR], running, [urgent("u")], quotas=quotas), POLICY)) == []
    mine = urgent("u", project=ProjectId("owner"))
    assert evicted(passed(busy([FOUR], running, [mine], quotas=quotas), POLICY)) == ["a"]


def test_a_session_is_preempted_only_after_its_minimum_run_time() -> None:
    started_us = NOW_US - 60 * SECOND_US
    running = [holding("a", 0, 1, 2, 3, started_us=started_us)]
    assert evicted(passed(busy([FOUR], running, [urgent("u")]), POLICY)) == ["a"]
    running = [holding("a", 0, 1, 2, 3, started_us=started_us + 1)]
    plan = passed(busy([FOUR], running, [urgent("u")]), POLICY)
    assert evicted(plan) == []
    assert plan.wake_at_us == NOW_US + 1, "the scheduler looks again then"
    peer = [holding("a", 0, 1, 2, 3, started_us=started_us + 1, priority=Priority.CRITICAL)]
    assert passed(busy([FOUR], peer, [urgent("u")]), POLICY).wake_at_us is None


def test_a_borrower_within_its_minimum_run_time_is_recalled_when_that_is_over() -> None:
    name = quota_id(QuotaScope.PROJECT, "owner")
    own = ResourceSlot({"cuda.device": 2})
    quotas = {name: Quota(id=name, scope=QuotaScope.PROJECT, name="owner", own_slots=own)}
    running = [holding("a", 0, 1, 2, 3, priority=Priority.CRITICAL, started_us=NOW_US - 50 * SECOND_US)]
    mine = row("mine", project=ProjectId("owner"))
    plan = passed(busy([FOUR], running, [mine], quotas=quotas), POLICY)
    assert (evicted(plan), plan.wake_at_us) == ([], NOW_US + 10 * SECOND_US)


def test_of_borrowers_without_work_left_a_preemptible_one_is_recalled() -> None:
    name = quota_id(QuotaScope.PROJECT, "owner")
    own = ResourceSlot({"cuda.device": 1})
    quotas = {name: Quota(id=name, scope=QuotaScope.PROJECT, name="owner", own_slots=own)}
    running = [holding("a", 0, estimate_ms=0), holding("b", 1, estimate_ms=0, is_preemptible=True)]
    mine = row("mine", project=ProjectId("owner"))
    assert evicted(passed(busy([TWO], running, [mine], quotas=quotas), POLICY)) == ["b"]


def test_borrowers_on_one_node_are_recalled_where_others_come_first() -> None:
    """Of four borrowers two may be recalled; the two with the most work left are on different nodes."""
    other = on("y", gpus(2))
    names = {"owner": 2, "lender": 2}
    quotas = {
        quota_id(QuotaScope.PROJECT, name): Quota(
            id=quota_id(QuotaScope.PROJECT, name),
            scope=QuotaScope.PROJECT,
            name=name,
            own_slots=ResourceSlot({"cuda.device": own}),
        )
        for name, own in names.items()
    }
    running = [
        replace(
            runs(name, node, {"cuda.device": {device: 1}}, ends_in_s=3600),
            started_us=0,
            estimate_ms=left_h * HOUR_MS,
            project=ProjectId("lender"),
        )
        for name, node, device, left_h in (
            ("a", TWO, "cuda0", 9),
            ("b", other, "cuda0", 8),
            ("c", TWO, "cuda1", 7),
            ("d", other, "cuda1", 6),
        )
    ]
    mine = row("mine", project=ProjectId("owner"), cuda_device="2")
    assert evicted(passed(busy([TWO, other], running, [mine], quotas=quotas), POLICY)) == ["c", "a"]


def test_an_eviction_names_the_preempting_session_and_has_the_grace_of_the_victim() -> None:
    plan = passed(busy([FOUR], [holding("a", 0, 1, 2, 3, grace_ms=7_000)], [urgent("u")]), POLICY)
    (eviction,) = plan.evictions
    assert (eviction.by_session, eviction.by_user, eviction.grace_ms) == ("u", "ann", 7_000)
    assert waits(plan, "u").evidence.until_us == NOW_US + 7 * SECOND_US


@pytest.mark.parametrize("backfill", Backfill)
def test_two_sessions_that_share_a_freed_device_preempt_its_holder_once(backfill: Backfill) -> None:
    running = [holding("a", 0), holding("z", 1, priority=Priority.CRITICAL)]
    queue = [urgent("u", cuda_shares="0.5"), urgent("v", at=1, cuda_shares="0.5")]
    plan = passed(busy([TWO], running, queue), replace(POLICY, backfill=backfill))
    assert evicted(plan) == ["a"]
    assert [waits(plan, name).evidence.blocked_by for name in "uv"] == [("a",), ("a",)]


@pytest.mark.parametrize("backfill", Backfill)
def test_a_session_that_fits_preempts_no_other_session(backfill: Backfill) -> None:
    plan = passed(busy([TWO], [holding("a", 0)], [urgent("u")]), replace(POLICY, backfill=backfill))
    assert (placed(plan), evicted(plan)) == (["u"], [])


def test_a_session_without_a_right_to_preempt_waits_for_the_end_of_a_leaving_session() -> None:
    leaving = holding("a", 0, 1, is_leaving=True, ends_us=NOW_US + 5 * SECOND_US)
    plan = passed(busy([TWO], [leaving], [urgent("u")]), replace(POLICY, order="fcfs"))
    assert waits(plan, "u").reason is Reason.INSUFFICIENT
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 5 * SECOND_US


def test_a_pass_examines_a_limited_number_of_preemption_claims() -> None:
    wide = on("x", gpus(TRIES_MAX + 2))
    running = [
        replace(
            runs(f"r{index:02}", wide, {"cuda.device": {f"cuda{index}": 1}}, ends_in_s=3600),
            started_us=0,
            priority=Priority.LOW,
        )
        for index in range(TRIES_MAX + 2)
    ]
    queue = [urgent(f"u{number:02}", at=number) for number in range(TRIES_MAX + 2)]
    plan = passed(busy([wide], running, queue), POLICY)
    assert len(plan.evictions) == TRIES_MAX == 16
    assert waits(plan, "u16").reason is Reason.INSUFFICIENT


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_a_session_behind_a_preempting_session_gets_a_reservation_at_its_end(backfill: Backfill) -> None:
    running = [holding("a", 0, 1)]
    later = row("later", at=1, cuda_device="2", priority=Priority.LOW)
    plan = passed(
        busy([TWO], running, [urgent("u", cuda_device="2", limit_ms=100_000), later]),
        replace(POLICY, backfill=backfill),
    )
    assert placed(plan) == []
    assert plan.reservation is not None
    assert plan.reservation.session_id == "later"
    assert plan.reservation.at_us == NOW_US + 130 * SECOND_US


def test_leaving_sessions_are_named_in_a_fixed_order() -> None:
    leaving = [holding("a", 0, is_leaving=True), holding("b", 1, is_leaving=True)]
    named = [
        waits(passed(busy([TWO], running, [urgent("u", cuda_device="2")]), POLICY), "u").evidence.blocked_by
        for running in (leaving, leaving[::-1])
    ]
    assert named == [("a", "b"), ("a", "b")]
