"""Who is next under each order policy, and for how long it can be overtaken."""

from dataclasses import replace

import pytest

from aliquot.core.fairshare import Usage
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.scheduler.ordering import ORDERS, OrderInputs, in_order, order_named
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.policies import DAY_MS, Weights
from aliquot_schema.sessions import Priority
from allocation_devices import gpus
from core_cluster import on, placed, row
from ordering_scenes import busy, passed

DAY_US = DAY_MS * 1000
NOW_US = 100 * DAY_US
ANN, BOB = UserId("ann"), UserId("bob")
LAB, SHOP = ProjectId("lab"), ProjectId("shop")


def ordered(name: str, rows: list[PendingRow], *, usage: Usage | None = None, weights: Weights | None = None) -> str:
    """Names in order, joined."""
    queue = Queue.of(rows)
    standing = OrderInputs(queue=queue, usage=usage or Usage(), weights=weights or Weights(), now_us=NOW_US)
    return "".join(queue[position].session_id for position in in_order(order_named(name), standing).tolist())


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_equals_go_by_submission_then_by_name(name: str) -> None:
    rows = [row("c", at=5), row("b", at=5), row("a", at=6), row("d", at=4)]
    assert ordered(name, rows) == "dbca"
    assert ordered(name, []) == ""


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(InvalidRequest, match="fair_share, fcfs, gang, priority, sjf"):
        passed(busy([on("x", gpus(1))], [], [row("a")]), Policy(order="lottery"))


def test_a_wrong_name_is_said_in_part_with_the_field() -> None:
    with pytest.raises(InvalidRequest) as found:
        order_named("x" * 65)
    assert str(found.value).startswith(f"order: '{'x' * 64}' is unknown")
    assert found.value.field == "order"


def test_many_equals_stay_in_their_order() -> None:
    names = [f"{number:03}" for number in range(300)]
    assert ordered("sjf", [row(name, at=5) for name in names]) == "".join(names)


def test_gang_is_another_name_of_fcfs() -> None:
    assert ORDERS["gang"] is ORDERS["fcfs"]


def test_priority_goes_by_level_and_a_wait_makes_up_for_levels() -> None:
    levels = {"l": Priority.LOW, "n": Priority.NORMAL, "h": Priority.HIGH, "c": Priority.CRITICAL}
    fresh = [row(name, at=NOW_US, priority=level) for name, level in levels.items()]
    assert ordered("priority", fresh) == "chnl"
    waited = [row("l", at=NOW_US - 3 * DAY_US - 1, priority=Priority.LOW), *fresh[1:]]
    assert ordered("priority", waited) == "lchn"
    short = [row("l", at=NOW_US - 3 * DAY_US + 1, priority=Priority.LOW), *fresh[1:]]
    assert ordered("priority", short) == "clhn"


def test_sjf_goes_by_estimate_and_a_tenth_of_the_wait_makes_up_for_it() -> None:
    rows = [row("long", at=0, estimate_ms=7_200_000), row("brief", at=1, estimate_ms=60_000), row("?", at=2)]
    assert ordered("sjf", rows) == "brief?long"
    bound_us = 10 * 7_200_000 * 1000
    long = row("a", at=NOW_US - bound_us, estimate_ms=7_200_000)
    assert ordered("sjf", [long, row("b", at=NOW_US, estimate_ms=0)]) == "ab"
    assert (
        ordered("sjf", [replace(long, queued_us=long.queued_us + 1_000_000), row("b", at=NOW_US, estimate_ms=0)])
        == "ba"
    )


def test_fair_share_prefers_who_has_used_little_a_short_session_and_a_high_level() -> None:
    usage = Usage().held(4000, user=ANN, project=LAB, now_us=NOW_US - DAY_US)
    mine, other = row("a", owner=ANN, project=LAB), row("b", at=1, owner=BOB, project=SHOP)
    assert ordered("fair_share", [mine, other]) == "ab"
    assert ordered("fair_share", [mine, other], usage=usage) == "ba"
    same_project = [mine, replace(other, project=LAB)]
    assert ordered("fair_share", same_project, usage=usage) == "ba"
    assert ordered("fair_share", [row("a", estimate_ms=DAY_MS), row("b", at=1, estimate_ms=1000)]) == "ba"
    assert ordered("fair_share", [row("a"), row("b", at=1, priority=Priority.HIGH)]) == "ba"


def test_fair_share_keeps_its_starvation_bound() -> None:
    weights = Weights()
    bound_us = weights.age_unit_ms * 1000 * (weights.fair + weights.short + 3 * weights.priority) // weights.age
    usage = Usage().held(10**6, user=ANN, project=LAB, now_us=0)
    worst = row("a", at=0, owner=ANN, project=LAB, estimate_ms=10**12, priority=Priority.LOW)
    best = row("b", owner=BOB, project=SHOP, estimate_ms=0, priority=Priority.CRITICAL)
    assert ordered("fair_share", [worst, replace(best, queued_us=bound_us)], usage=usage) == "ab"
    assert ordered("fair_share", [worst, replace(best, queued_us=NOW_US // 100)], usage=usage) == "ba"


def test_the_order_decides_who_starts() -> None:
    state = busy([on("x", gpus(1))], [], [row("a", estimate_ms=9000), row("b", at=1, estimate_ms=10)])
    assert placed(passed(state, Policy(order="sjf"))) == ["b"]
    assert placed(passed(state, Policy(order="fcfs"))) == ["a"]
