"""No-wait sessions: last in the order, start on unreserved devices only, and refused if none are free."""

import pytest
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.decide import NOT_PLACED
from aliquot_schema.ids import UserId
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import Priority
from aliquot_schema.states import SessionState
from allocation_devices import gpus
from core_cluster import on, placed, places, row, snapshot, waits
from core_policies import PROMISING
from ordering_scenes import busy, passed, runs

TWO, FOUR = on("x", gpus(2)), on("x", gpus(4))
LONG_MS = 10**9


def hurried(name: str, *, at: int = 0, count: int = 1) -> PendingRow:
    return row(name, at=at, cuda_device=str(count), limit_ms=LONG_MS, is_immediate=True)


@pytest.mark.parametrize("backfill", Backfill)
@pytest.mark.parametrize("order", ["fcfs", "priority", "sjf", "fair_share"])
def test_immediate_sessions_come_last_and_in_order_among_themselves(order: str, backfill: Backfill) -> None:
    first, second = (replace(hurried(name, at=at), priority=Priority.CRITICAL) for at, name in enumerate("ab"))
    queue = [first, second, row("c", at=2, estimate_ms=10**8), row("d", at=3, estimate_ms=10**8)]
    plan = passed(snapshot([on("x", gpus(3))], queue), Policy(order=order, backfill=backfill))
    assert placed(plan) == ["c", "d", "a"]
    assert (plan.failures, plan.verdicts, plan.reservation) == ({"b": NOT_PLACED}, {}, None)


@pytest.mark.parametrize("backfill", PROMISING)
@pytest.mark.parametrize("devices", [2, 3])
def test_an_immediate_session_takes_no_reserved_devices(backfill: Backfill, devices: int) -> None:
    agent = on("x", gpus(devices))
    running = [runs("r", agent, {"cuda.device": {"cuda0": 1}}, ends_in_s=50)]
    plan = passed(busy([agent], running, [hurried("a"), row("head", at=1, cuda_device="2")]), Policy(backfill=backfill))
    assert plan.reservation is None or plan.reservation.session_id == "head"
    assert placed(plan) == ([] if devices == 2 else ["head"])
    assert plan.failures == {"a": NOT_PLACED}
    left = passed(busy([FOUR], running, [hurried("a"), row("head", at=1, cuda_device="3")]), Policy(backfill=backfill))
    assert placed(left) == ["head"]


@pytest.mark.parametrize("backfill", PROMISING)
def test_an_immediate_session_gets_devices_that_are_not_reserved(backfill: Backfill) -> None:
    running = [runs("r", FOUR, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=50)]
    queue = [hurried("a"), hurried("b", at=1), row("head", at=2, cuda_device="4")]
    plan = passed(busy([FOUR, on("y", gpus(1))], running, queue), Policy(backfill=backfill))
    assert [(agent, name) for name, ((agent, _),) in places(plan).items()] == [("y", "a")]
    assert plan.failures == {"b": NOT_PLACED}
    assert list(plan.verdicts) == ["head"]


@pytest.mark.parametrize("backfill", Backfill)
def test_an_immediate_session_preempts_no_session_and_gets_no_reservation(backfill: Backfill) -> None:
    low = replace(runs("r", TWO, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=50), priority=Priority.LOW)
    policy = Policy(
        order="priority", backfill=backfill, preemption=Preemption(preempt=PreemptScope.ANY, run_ms_min=0, grace_ms=0)
    )
    urgent = replace(hurried("a"), priority=Priority.CRITICAL)
    plan = passed(busy([TWO], [replace(low, started_us=0)], [urgent]), policy)
    assert (plan.evictions, plan.promises, plan.reservation, plan.verdicts) == ((), (), None, {})
    assert plan.failures == {"a": NOT_PLACED}
    plain = replace(urgent, is_immediate=False)
    assert passed(busy([TWO], [replace(low, started_us=0)], [plain]), policy).evictions


@pytest.mark.parametrize("backfill", Backfill)
def test_an_immediate_session_that_does_not_fit_does_not_block_another(backfill: Backfill) -> None:
    running = [runs("r", FOUR, {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=50)]
    plan = passed(busy([FOUR], running, [hurried("wide", count=3), hurried("a", at=1)]), Policy(backfill=backfill))
    assert placed(plan) == ["a"]
    assert plan.failures == {"wide": NOT_PLACED}


def test_a_held_over_quota_or_too_wide_immediate_session_is_refused() -> None:
    limit = Quota(id=quota_id(QuotaScope.USER, "ann"), scope=QuotaScope.USER, name="ann", gpu_hours_per_month=0)
    queue = [
        replace(hurried("held"), state=SessionState.HELD),
        replace(hurried("spent"), owner=UserId("ann")),
        hurried("wide", count=9),
        row("other", at=1, cuda_device="9"),
    ]
    for explains in (Policy(backfill=Backfill.EASY), Policy()):
        plan = passed(snapshot([TWO], queue, quotas={limit.id: limit}), explains)
        assert plan.failures == dict.fromkeys(["held", "spent", "wide"], NOT_PLACED)
        assert list(plan.failures) == ["held", "spent", "wide"]
        assert list(plan.verdicts) == ["other"]
        assert waits(plan, "other").reason is Reason.NO_AGENT
    assert NOT_PLACED.code == "not_placed"
    assert "not queued" in NOT_PLACED.message
