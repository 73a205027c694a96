"""Edge cases of the gate: when it opens, the next of several times, and the reasons given."""

from itertools import permutations

import pytest

from aliquot.core.fairshare import month_after, month_of, starts_us
from aliquot.core.model.policy import Policy
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.policies import Backfill
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import Failure
from aliquot_schema.states import SessionState
from allocation_devices import gpus
from core_cluster import NOW_US, decided, on, placed, row, snapshot, waits
from ordering_scenes import passed

ONE = on("x", gpus(1))


@pytest.mark.parametrize("times", list(permutations([NOW_US + 5, NOW_US + 3, NOW_US + 9])))
def test_the_next_pass_wakes_at_the_earliest_pause_or_fallback_time(times: tuple[int, ...]) -> None:
    pauses = [row(f"p{number}", at=number, not_before_us=at_us) for number, at_us in enumerate(times)]
    assert decided([ONE], pauses).wake_at_us == NOW_US + 3
    wide = on("x", gpus(8))
    used = {"node-x": {"cuda0": 1000}}
    falls = [row(f"f{number}", at=number, falls_back_us=at_us, cuda_device="8") for number, at_us in enumerate(times)]
    assert decided([wide], falls, used=used).wake_at_us == NOW_US + 3
    assert decided([wide], [falls[0], *pauses[1:]], used=used).wake_at_us == NOW_US + 3 or times[0] == NOW_US + 3


def test_a_monthly_quota_wakes_a_pass_at_its_renewal_unless_another_time_is_earlier() -> None:
    spent = Quota(id=quota_id(QuotaScope.USER, "ann"), scope=QuotaScope.USER, name="ann", gpu_hours_per_month=0)
    mine = row("a", owner=UserId("ann"), project=ProjectId("p"))
    quotas = {spent.id: spent}
    next_us = starts_us(month_after(month_of(NOW_US)))
    policy = Policy(backfill=Backfill.EASY)
    assert passed(snapshot([ONE], [mine], quotas=quotas), policy).wake_at_us == next_us
    later = row("b", at=1, not_before_us=NOW_US + 4)
    assert passed(snapshot([ONE], [mine, later], quotas=quotas), policy).wake_at_us == NOW_US + 4


def test_a_dependency_that_cannot_be_met_fails_the_session_with_the_reason() -> None:
    plan = decided([ONE], [row("a", after=[("gone", "after_ok")])])
    assert plan.failures["a"] == Failure(code="dependency", message="dependency gone does not exist any more")
    failed = {"b": SessionState.FAILED}
    plan = decided([ONE], [row("a", after=[("b", "after_ok")])], dependencies=failed)
    assert plan.failures["a"].message == "dependency b is failed, so after_ok cannot be met"


def test_verdicts_list_sessions_that_cannot_start_last_and_in_queue_order() -> None:
    queue = [
        row("held2", at=1, state=SessionState.HELD),
        row("wide", at=2, cuda_device="9"),
        row("first", at=3),
        row("second", at=4),
        row("held1", at=0, state=SessionState.HELD),
    ]
    plan = decided([ONE], queue)
    assert placed(plan) == ["first"]
    assert list(plan.verdicts) == ["second", "held1", "held2", "wide"]
    assert waits(plan, "wide").reason is Reason.NO_AGENT


def test_a_due_fallback_moves_a_session_to_the_next_level() -> None:
    wide = on("x", gpus(8))
    queue = [row("a", cuda_device="8", falls_back_us=NOW_US, fallback_level=2), row("b", at=1, falls_back_us=NOW_US)]
    plan = decided([wide], queue, used={"node-x": {"cuda0": 1000}})
    assert plan.fallbacks == {"a": 3, "b": 1}
    assert plan.wake_at_us is None
