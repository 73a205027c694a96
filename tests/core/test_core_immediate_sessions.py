"""No-wait rows start in this pass or are refused: last in the order, and without delaying others."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import EXTERNAL_LIMIT_MS, PendingRow, RunningRow, Snapshot
from aliquot.core.scheduler.decide import NOT_PLACED, decide
from aliquot_schema.ids import SessionId
from aliquot_schema.policies import Backfill, PolicyDocument
from allocation_devices import gpus
from core_cluster import NOW_US, after, on, placed, row, snapshot

EVERY_BACKFILL = pytest.mark.parametrize("backfill", list(Backfill))


def hurried(name: str, **asked: Any) -> PendingRow:
    return replace(row(name, **asked), is_immediate=True, limit_ms=EXTERNAL_LIMIT_MS)


def plan_of(state: Snapshot, backfill: Backfill) -> Any:
    return decide(state, Policy.of(PolicyDocument(backfill=backfill)), now_us=NOW_US, seed=0)


@EVERY_BACKFILL
def test_a_session_that_does_not_wait_is_placed_after_later_sessions(backfill: Backfill) -> None:
    plan = plan_of(snapshot([on("x", gpus(2))], [hurried("now", at=1), row("a", at=2), row("b", at=3)]), backfill)
    assert placed(plan) == ["a", "b"]
    assert dict(plan.failures) == {"now": NOT_PLACED}
    assert plan.verdicts == {}


@EVERY_BACKFILL
def test_a_session_that_does_not_wait_takes_the_remaining_devices(backfill: Backfill) -> None:
    plan = plan_of(snapshot([on("x", gpus(3))], [hurried("now", at=1), row("a", at=2)]), backfill)
    assert placed(plan) == ["a", "now"]
    assert plan.failures == {}


@EVERY_BACKFILL
def test_sessions_that_do_not_wait_are_placed_independently_of_each_other(backfill: Backfill) -> None:
    queue = [hurried("wide", at=1, cuda_device="4"), hurried("small", at=2)]
    plan = plan_of(snapshot([on("x", gpus(2)), on("big", gpus(4), is_open=False)], queue), backfill)
    assert placed(plan) == ["small"]
    assert list(plan.failures) == ["wide"]
    assert (plan.reservation, plan.promises) == (None, ())


@EVERY_BACKFILL
def test_a_session_that_does_not_wait_does_not_use_the_reservation_of_the_head(backfill: Backfill) -> None:
    queue = [row("head", at=1, cuda_device="2"), hurried("now", at=2)]
    state = snapshot([on("x", gpus(2))], [row("first")])
    plan = plan_of(state, backfill)
    first = RunningRow.of(SessionId("first"), plan.placements[0].kernels, ends_us=NOW_US + 1000, agents=state.agents)
    plan = plan_of(replace(after(state, plan), queue=queue, running=(first,)), backfill)
    assert placed(plan) == []
    assert list(plan.failures) == ["now"]
    assert list(plan.verdicts) == ["head"]


def test_a_pass_without_explanations_refuses_a_session_that_does_not_wait_all_the_same() -> None:
    state = snapshot([on("x", gpus(1))], [hurried("now", at=1), row("a", at=2)])
    rules = Policy.of(PolicyDocument())
    short = decide(state, rules, now_us=NOW_US, seed=0, explains=False)
    assert (placed(short), list(short.failures)) == (["a"], [SessionId("now")])


def test_without_an_open_agent_a_session_that_does_not_wait_is_refused() -> None:
    plan = plan_of(snapshot([on("x", gpus(1), is_open=False)], [hurried("now"), row("a")]), Backfill.EASY)
    assert (list(plan.failures), list(plan.verdicts)) == (["now"], ["a"])
