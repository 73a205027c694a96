"""Edge cases of quotas: one milli more or less, the owner, and messages."""

import pytest

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.quota import QuotaTracker, impossible_under, too_many_queued
from aliquot_schema.ids import AgentId, DeviceId, NodeId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.slots import ResourceSlot, SlotAmounts
from aliquot_schema.sessions import SessionSpec
from allocation_devices import gpus
from core_cluster import on, placed, row, snapshot, waits
from ordering_scenes import passed

ANN, LAB = UserId("ann"), ProjectId("lab")
SHARES = SlotName("cuda.shares")


def quota(scope: QuotaScope, name: str, *, own: int | None = None, most: int | None = None) -> Quota:
    """Amounts in milli."""
    return Quota(
        id=quota_id(scope, name),
        scope=scope,
        name=name,
        own_slots=ResourceSlot({} if own is None else {SHARES: own}),
        max_slots=SlotAmounts({} if most is None else {SHARES: most}),
    )


def holds(name: str, milli: int) -> RunningRow:
    kernel = KernelPlacement(rank=0, agent_id=AgentId("x"), node_id=NodeId("x"), spec={SHARES: {DeviceId("0"): milli}})
    return RunningRow(session_id=SessionId(name), ends_us=0, kernels=(kernel,), milli=milli, owner=ANN, project=LAB)


def book(*quotas: Quota, running: list[RunningRow]) -> QuotaTracker:
    state = snapshot([], [], quotas={one.id: one for one in quotas}, running=tuple(running))
    return QuotaTracker(state, policy=Policy(preemption=Preemption(preempt=PreemptScope.ANY)), now_us=0)


def test_one_milli_beyond_ones_own_is_borrowed_by_who_holds_no_more_than_that() -> None:
    large, small = holds("large", 999), holds("small", 1)
    lending = book(quota(QuotaScope.PROJECT, "lab", own=999), running=[large, small])
    assert (lending.is_borrower(small), lending.is_borrower(large)) == (True, False)


def test_who_would_lose_a_part_of_his_own_is_not_asked() -> None:
    whole = holds("whole", 1000)
    assert not book(quota(QuotaScope.PROJECT, "lab", own=999), running=[whole]).is_borrower(whole)
    assert not book(quota(QuotaScope.PROJECT, "lab", own=1000), running=[whole]).is_borrower(whole)


def test_who_starts_in_a_pass_counts_once_among_those_who_stay() -> None:
    first, second = holds("a", 1000), holds("b", 1000)
    lending = book(quota(QuotaScope.PROJECT, "lab", own=3000), running=[first, second])
    mine = row("m", owner=ANN, project=LAB)
    lending.take(mine)
    assert not lending.is_borrower(first)
    lending.take(mine)
    assert lending.is_borrower(first)


def test_a_user_who_keeps_to_his_own_may_borrow_for_his_project() -> None:
    first, second = holds("a", 1000), holds("b", 1000)
    user, project = quota(QuotaScope.USER, "ann", own=2000), quota(QuotaScope.PROJECT, "lab", own=1000)
    assert book(user, project, running=[first, second]).is_borrower(second)


def test_what_is_not_in_the_book_borrows_nothing() -> None:
    lending = book(quota(QuotaScope.PROJECT, "lab", own=1), running=[])
    assert not lending.is_borrower(holds("stranger", 1))


def test_a_user_calls_back_what_is_his_own_without_a_project() -> None:
    lending = book(quota(QuotaScope.USER, "ann", own=1000), running=[])
    assert lending.may_reclaim(row("a", owner=ANN, project=LAB))
    assert not lending.may_reclaim(row("a", owner=UserId("bob"), project=LAB))


def test_the_whole_owns_nothing() -> None:
    whole = quota(QuotaScope.CLUSTER, "", own=1000)
    assert not book(whole, running=[holds("a", 1000)]).borrows(row("b", owner=ANN, project=LAB))


@pytest.mark.parametrize(
    ("scope", "name"), [(QuotaScope.USER, "ann"), (QuotaScope.PROJECT, "lab"), (QuotaScope.CLUSTER, "")]
)
def test_hours_are_those_that_were_charged_under_this_quota(scope: QuotaScope, name: str) -> None:
    """Ann used two hours in the lab, and Bob one hour in the shop."""
    start_us = 1_793_500_000_000_000
    usage = Usage().held(1000, user=ANN, project=LAB, now_us=start_us)
    usage = usage.held(500, user=UserId("bob"), project=ProjectId("shop"), now_us=start_us)
    hours = 3 if scope is QuotaScope.CLUSTER else 2
    for allowed, is_open in ((hours, False), (hours + 1, True)):
        limit = Quota(id=quota_id(scope, name), scope=scope, name=name, gpu_hours_per_month=allowed)
        state = snapshot([], [], quotas={limit.id: limit}, usage=usage)
        found = QuotaTracker(state, policy=Policy(), now_us=start_us + 2 * 3_600_000_000)
        assert (found.refusal(row("a", owner=ANN, project=LAB)) is None) is is_open


def test_what_is_given_back_is_given_back_once() -> None:
    first, second = holds("a", 1000), holds("b", 1000)
    tight = book(quota(QuotaScope.PROJECT, "lab", most=2000), running=[first, second])
    tight.release(first)
    mine = row("m", owner=ANN, project=LAB)
    assert tight.refusal(mine) is None
    trial = tight.copy()
    trial.take(mine)
    assert tight.refusal(mine) is None
    assert trial.refusal(mine) is not None
    assert trial.copy().refusal(mine) is not None


@pytest.mark.parametrize("backfill", Backfill)
def test_a_quota_holds_back_under_every_backfill(backfill: Backfill) -> None:
    queue = [
        row("mine", at=1, owner=ANN, cuda_device="2"),
        row("more", at=2, owner=ANN),
        row("last", at=3, cuda_device="2"),
    ]
    limit = quota(QuotaScope.USER, "ann", most=2000)
    plan = passed(snapshot([on("x", gpus(4))], queue, quotas={limit.id: limit}), Policy(backfill=backfill))
    assert placed(plan) == ["mine", "last"]
    assert waits(plan, "more").reason is Reason.QUOTA
    assert waits(plan, "more").evidence.quota == "user:ann"


def test_what_is_not_asked_for_may_be_forbidden() -> None:
    spec = SessionSpec(argv=("true",), slots=ResourceSlot.parse({"cpu": "1"}))
    none = quota(QuotaScope.USER, "ann", most=0)
    assert impossible_under(spec, {none.id: none}, user=ANN, project=LAB) is None
    asks = SessionSpec(argv=("true",), slots=ResourceSlot.parse({"cuda.device": "1"}))
    found = impossible_under(asks, {none.id: none}, user=ANN, project=LAB)
    assert found is not None
    assert (found.message, found.limit) == (
        "User ann may hold at most 0 GPUs, and this session needs 1 GPU. "
        "Ask for less, or ask an administrator to raise the quota",
        "0",
    )
    forbids = book(none, running=[])
    assert forbids.refusal(row("a", owner=ANN, project=LAB)) is not None
    assert forbids.refusal(row("a", owner=ANN, project=LAB, cpu="1")) is None


def test_a_refusal_at_submission_says_what_and_how_much() -> None:
    spec = SessionSpec(argv=("true",), slots=ResourceSlot.parse({"cuda.device": "3"}))
    limit = quota(QuotaScope.USER, "ann", most=2000)
    found = impossible_under(spec, {limit.id: limit}, user=ANN, project=LAB)
    assert found is not None
    assert found.message == (
        "User ann may hold at most 2 GPUs, and this session needs 3 GPUs. "
        "Ask for less, or ask an administrator to raise the quota"
    )
    spent = Quota(id=quota_id(QuotaScope.PROJECT, "lab"), scope=QuotaScope.PROJECT, name="lab", gpu_hours_per_month=0)
    found = impossible_under(spec, {spent.id: spent}, user=ANN, project=LAB)
    assert found is not None
    assert found.message == ("Project lab may use 0 GPU-hours a month. Ask an administrator to raise the quota")


@pytest.mark.parametrize(("scope", "name"), [(QuotaScope.USER, "ann"), (QuotaScope.PROJECT, "lab")])
def test_too_many_that_wait_are_refused_with_the_quota_and_the_numbers(scope: QuotaScope, name: str) -> None:
    limit = Quota(id=quota_id(scope, name), scope=scope, name=name, max_queued=5)
    found = too_many_queued(3, {limit.id: limit}, queued=lambda _: 3, user=ANN, project=LAB)
    assert found is not None
    assert (found.quota, found.resource, found.requested, found.limit) == (limit.id, "queued", "3", "5")
    assert found.message == (
        f"{scope.capitalize()} {name} may have at most 5 waiting tasks, and 6 would wait. "
        "Submit fewer, or try again when some have started"
    )
    assert too_many_queued(2, {limit.id: limit}, queued=lambda _: 3, user=ANN, project=LAB) is None
    assert too_many_queued(9, {limit.id: limit}, queued=lambda _: 3, user=UserId("x"), project=ProjectId("y")) is None


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_rows_refused_before_and_after_a_start_name_the_same_remainder(backfill: Backfill) -> None:
    """The first row is refused while the project holds nothing; the second starts; the third is refused."""
    limit = quota(QuotaScope.PROJECT, "lab", most=3000)
    mine = {"owner": ANN, "project": LAB}
    queue = [row("a", cuda_device="4", **mine), row("b", cuda_device="2", **mine), row("c", cuda_device="2", **mine)]
    plan = passed(
        snapshot([on("x", gpus(8))], queue, quotas={limit.id: limit}), Policy(order="fcfs", backfill=backfill)
    )
    assert placed(plan) == ["b"]
    found = [waits(plan, name).evidence for name in "ac"]
    assert [(one.requested, one.limit, one.held, one.available) for one in found] == [
        ("4", "3", "2", "1"),
        ("2", "3", "2", "1"),
    ]


def test_who_may_borrow_is_told_what_they_own() -> None:
    limit = quota(QuotaScope.PROJECT, "lab", own=1000)
    state = snapshot([on("x", gpus(8))], [row("a", cuda_device="2", owner=ANN, project=LAB)], quotas={limit.id: limit})
    evidence = waits(passed(state, Policy(preemption=Preemption(preempt=PreemptScope.PREEMPTIBLE))), "a").evidence
    assert (evidence.limit, evidence.held, evidence.may_borrow) == ("1", "0", True)
