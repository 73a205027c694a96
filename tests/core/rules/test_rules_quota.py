"""Edge cases of quotas: one milli more or less, the owner, and messages."""

import pytest

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import KernelPlacement
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.quota import QuotaTracker, impossible_under, too_many_queued
from aliquot_schema.ids import AgentId, DeviceId, NodeId, ProjectId, SessionId, SlotName, UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope, Weights
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


def test_only_a_session_no_larger_than_the_borrowed_amount_is_a_borrower() -> None:
    large, small = holds("large", 999), holds("small", 1)
    lending = book(quota(QuotaScope.PROJECT, "lab", own=999), running=[large, small])
    assert (lending.is_borrower(small), lending.is_borrower(large)) == (True, False)


def test_a_session_partly_within_the_owned_quota_is_not_a_borrower() -> None:
    whole = holds("whole", 1000)
    assert not book(quota(QuotaScope.PROJECT, "lab", own=999), running=[whole]).is_borrower(whole)
    assert not book(quota(QuotaScope.PROJECT, "lab", own=1000), running=[whole]).is_borrower(whole)


def test_a_session_started_in_a_pass_counts_once_against_the_owned_quota() -> None:
    first, second = holds("a", 1000), holds("b", 1000)
    lending = book(quota(QuotaScope.PROJECT, "lab", own=3000), running=[first, second])
    mine = row("m", owner=ANN, project=LAB)
    lending.take(mine)
    assert not lending.is_borrower(first)
    lending.take(mine)
    assert lending.is_borrower(first)


def test_a_user_within_the_owned_quota_may_still_borrow_for_the_project() -> None:
    first, second = holds("a", 1000), holds("b", 1000)
    user, project = quota(QuotaScope.USER, "ann", own=2000), quota(QuotaScope.PROJECT, "lab", own=1000)
    assert book(user, project, running=[first, second]).is_borrower(second)


def test_a_session_unknown_to_the_quota_tracker_is_not_a_borrower() -> None:
    lending = book(quota(QuotaScope.PROJECT, "lab", own=1), running=[])
    assert not lending.is_borrower(holds("stranger", 1))


def test_a_user_may_reclaim_an_owned_quota_without_a_project_quota() -> None:
    lending = book(quota(QuotaScope.USER, "ann", own=1000), running=[])
    assert lending.may_reclaim(row("a", owner=ANN, project=LAB))
    assert not lending.may_reclaim(row("a", owner=UserId("bob"), project=LAB))


def test_the_cluster_quota_owns_nothing() -> None:
    whole = quota(QuotaScope.CLUSTER, "", own=1000)
    assert not book(whole, running=[holds("a", 1000)]).borrows(row("b", owner=ANN, project=LAB))


@pytest.mark.parametrize(
    ("scope", "name"), [(QuotaScope.USER, "ann"), (QuotaScope.PROJECT, "lab"), (QuotaScope.CLUSTER, "")]
)
def test_gpu_hours_count_only_charges_under_the_same_quota(scope: QuotaScope, name: str) -> None:
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


def test_changes_to_a_copied_quota_tracker_do_not_affect_the_original() -> None:
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
def test_a_quota_is_enforced_under_every_backfill(backfill: Backfill) -> None:
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


@pytest.mark.parametrize("backfill", Backfill)
@pytest.mark.parametrize("wait_bound_ms", [0, 1])
def test_a_gang_that_waits_for_its_quota_holds_back_no_smaller_session(backfill: Backfill, wait_bound_ms: int) -> None:
    """As the documentation of quotas says: there is no reservation under a quota."""
    gang = row("gang", owner=ANN, kernels=2)
    queue = [gang, row("small", at=1, owner=ANN)]
    limit = quota(QuotaScope.USER, "ann", most=2000)
    state = snapshot([on("x", gpus(4))], queue, quotas={limit.id: limit}, running=(holds("r", 1000),))
    policy = Policy(backfill=backfill, weights=Weights(wait_bound_ms=wait_bound_ms))
    plan = passed(state, policy)
    assert (placed(plan), plan.reservation) == (["small"], None)
    assert waits(plan, "gang").reason is Reason.QUOTA


def test_a_zero_quota_refuses_only_sessions_that_request_the_slot() -> None:
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


def test_a_refusal_at_submission_names_the_quota_and_the_amounts() -> None:
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
def test_too_many_waiting_tasks_are_refused_with_the_quota_and_the_numbers(scope: QuotaScope, name: str) -> None:
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


def test_a_waiting_session_that_may_borrow_shows_the_owned_amount() -> None:
    limit = quota(QuotaScope.PROJECT, "lab", own=1000)
    state = snapshot([on("x", gpus(8))], [row("a", cuda_device="2", owner=ANN, project=LAB)], quotas={limit.id: limit})
    evidence = waits(passed(state, Policy(preemption=Preemption(preempt=PreemptScope.PREEMPTIBLE))), "a").evidence
    assert (evidence.limit, evidence.held, evidence.may_borrow) == ("1", "0", True)
