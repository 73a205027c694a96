"""The queue order of each policy, and how long a session can be overtaken."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import BacklogPeak
from aliquot.core.model.policy import Policy
from aliquot.core.model.queue import Queue
from aliquot.core.model.snapshot import PendingRow
from aliquot.core.prediction import RunTimes, Workload
from aliquot.core.scheduler.ordering import ORDERS, in_order, order_named
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.policies import DAY_MS, Weights
from aliquot_schema.sessions import DEFAULT_POOL, Priority
from allocation_devices import gpus
from core_cluster import on, placed, row, snapshot, standing
from ordering_scenes import busy, passed

DAY_US = DAY_MS * 1000
HOUR_MS = 3_600_000
NOW_US = 100 * DAY_US
ANN, BOB = UserId("ann"), UserId("bob")
LAB, SHOP = ProjectId("lab"), ProjectId("shop")


def ordered(
    name: str, rows: list[PendingRow], *, usage: Usage | None = None, weights: Weights | None = None, **more: Any
) -> str:
    """Names in order, joined. Without a backlog the age unit is an hour."""
    state = snapshot([on("x", gpus(8))], rows, usage=usage or Usage(), **more)
    found = in_order(order_named(name), standing(state, weights=weights, now_us=NOW_US, is_ready=False))
    return "".join(Queue.of(rows)[position].session_id for position in found.tolist())


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_sessions_of_equal_score_are_ordered_by_submission_then_by_name(name: str) -> None:
    rows = [row("c", at=5), row("b", at=5), row("a", at=6), row("d", at=4)]
    assert ordered(name, rows) == "dbca"
    assert ordered(name, []) == ""


def test_an_unknown_order_is_refused_with_the_known_orders() -> None:
    with pytest.raises(InvalidRequest, match="fair_share, fcfs, gang, las, priority, relative_age, sjf, srtf"):
        passed(busy([on("x", gpus(1))], [], [row("a")]), Policy(order="lottery"))


def test_an_unknown_order_is_quoted_truncated_and_with_the_field() -> None:
    with pytest.raises(InvalidRequest) as found:
        order_named("x" * 65)
    assert str(found.value).startswith(f"order: '{'x' * 64}' is unknown")
    assert found.value.field == "order"


def test_many_sessions_of_equal_score_keep_their_order() -> None:
    names = [f"{number:03}" for number in range(300)]
    assert ordered("sjf", [row(name, at=5) for name in names]) == "".join(names)


def test_gang_is_another_name_of_fcfs() -> None:
    assert ORDERS["gang"] is ORDERS["fcfs"]


def test_priority_orders_by_level_and_a_long_wait_outweighs_levels() -> None:
    levels = {"l": Priority.LOW, "n": Priority.NORMAL, "h": Priority.HIGH, "c": Priority.CRITICAL}
    fresh = [row(name, at=NOW_US, priority=level) for name, level in levels.items()]
    assert ordered("priority", fresh) == "chnl"
    waited = [row("l", at=NOW_US - 3 * DAY_US - 1, priority=Priority.LOW), *fresh[1:]]
    assert ordered("priority", waited) == "lchn"
    short = [row("l", at=NOW_US - 3 * DAY_US + 1, priority=Priority.LOW), *fresh[1:]]
    assert ordered("priority", short) == "clhn"


def test_sjf_orders_by_the_estimate_less_a_tenth_of_the_wait() -> None:
    rows = [row("long", at=0, estimate_ms=7_200_000), row("brief", at=1, estimate_ms=60_000), row("?", at=2)]
    assert ordered("sjf", rows) == "brief?long"
    bound_us = 10 * 7_200_000 * 1000
    long = row("a", at=NOW_US - bound_us, estimate_ms=7_200_000)
    assert ordered("sjf", [long, row("b", at=NOW_US, estimate_ms=0)]) == "ab"
    assert (
        ordered("sjf", [replace(long, queued_us=long.queued_us + 1_000_000), row("b", at=NOW_US, estimate_ms=0)])
        == "ba"
    )


def test_fair_share_prefers_low_usage_short_sessions_and_high_priority() -> None:
    usage = Usage().held(4000, user=ANN, project=LAB, now_us=NOW_US - DAY_US)
    mine, other = row("a", owner=ANN, project=LAB), row("b", at=1, owner=BOB, project=SHOP)
    assert ordered("fair_share", [mine, other]) == "ab"
    assert ordered("fair_share", [mine, other], usage=usage) == "ba"
    same_project = [mine, replace(other, project=LAB)]
    assert ordered("fair_share", same_project, usage=usage) == "ba"
    assert ordered("fair_share", [row("a", estimate_ms=DAY_MS), row("b", at=1, estimate_ms=1000)]) == "ba"
    assert ordered("fair_share", [row("a"), row("b", at=1, priority=Priority.HIGH)]) == "ba"


@pytest.mark.parametrize(("peak_ms", "unit_ms"), [(0, HOUR_MS), (17 * HOUR_MS, 18 * HOUR_MS)])
def test_fair_share_keeps_its_starvation_bound(peak_ms: int, unit_ms: int) -> None:
    weights, peaks = Weights(), {DEFAULT_POOL: BacklogPeak(peak_ms, NOW_US)}
    bound_us = unit_ms * 1000 * (weights.fair + weights.short + 3 * weights.priority) // weights.age
    usage = Usage().held(10**6, user=ANN, project=LAB, now_us=0)
    came_us = NOW_US - 2 * bound_us
    worst = row("a", at=came_us, owner=ANN, project=LAB, request=(), estimate_ms=10**12, priority=Priority.LOW)
    best = row("b", owner=BOB, project=SHOP, request=(), estimate_ms=0, priority=Priority.CRITICAL)
    later = replace(best, queued_us=came_us + bound_us)
    assert ordered("fair_share", [worst, later], usage=usage, backlogs=peaks) == "ab"
    sooner = replace(best, queued_us=came_us + bound_us * 9 // 10)
    assert ordered("fair_share", [worst, sooner], usage=usage, backlogs=peaks) == "ba"


@pytest.mark.parametrize(("peak_ms", "unit_ms"), [(0, HOUR_MS), (8 * HOUR_MS, 9 * HOUR_MS)])
def test_relative_age_lets_a_shorter_session_overtake_only_within_two_units_of_age(peak_ms: int, unit_ms: int) -> None:
    peaks, came_us = {DEFAULT_POOL: BacklogPeak(peak_ms, NOW_US)}, NOW_US - 10 * unit_ms * 1000
    long, short = row("a", at=came_us, request=(), estimate_ms=10**12), row("b", request=(), estimate_ms=0)
    later = replace(short, queued_us=came_us + 2 * unit_ms * 1000)
    assert ordered("relative_age", [long, later], backlogs=peaks) == "ab"
    sooner = replace(short, queued_us=came_us + 2 * unit_ms * 1000 - 60_000_000)
    assert ordered("relative_age", [long, sooner], backlogs=peaks) == "ba"
    wide = replace(long, request=row("one").request)
    assert ordered("relative_age", [wide, later], backlogs=peaks) == "ab"


def test_the_wait_of_a_wide_session_counts_up_to_two_and_a_half_times() -> None:
    """2.5 times with eight of eight GPUs; 1.75 times with four."""
    came_us = NOW_US - 12 * HOUR_MS * 1000
    for asked, hours in (("8", 30), ("4", 21), ("1", 14.25)):
        wide = row("wide", at=came_us, cuda_device=asked, estimate_ms=HOUR_MS)
        for more_s, order in ((-60, "wide other"), (60, "other wide")):
            other = row(
                "other", at=NOW_US - int(hours * 3_600_000_000) - more_s * 1_000_000, request=(), estimate_ms=HOUR_MS
            )
            assert ordered("relative_age", [wide, other]) == order.replace(" ", ""), (asked, more_s)


def test_relative_age_ignores_the_usage_of_users() -> None:
    usage = Usage().held(4000, user=ANN, project=LAB, now_us=NOW_US - DAY_US)
    rows = [row("a", at=NOW_US, owner=ANN, project=LAB), row("b", at=NOW_US, owner=BOB, project=SHOP)]
    assert ordered("relative_age", rows, usage=usage) == "ab"
    assert ordered("fair_share", rows, usage=usage) == "ba"


def test_the_order_uses_predicted_run_times_and_the_limit_without_a_prediction() -> None:
    short, long = (Workload(user=ANN, program=name, milli=1000, limit_ms=None) for name in ("short", "long"))
    known = {short: RunTimes(60_000, 60_000), long: RunTimes(DAY_MS, 60_000)}
    rows = [
        row("l", at=NOW_US, workload=long),
        row("s", at=NOW_US, workload=short),
        row("u", at=NOW_US, limit_ms=2 * DAY_MS),
        row("v", at=NOW_US),
    ]
    assert ordered("relative_age", rows, run_times=known) == "svlu"


def test_the_order_policy_decides_which_session_starts() -> None:
    state = busy([on("x", gpus(1))], [], [row("a", estimate_ms=9000), row("b", at=1, estimate_ms=10)])
    assert placed(passed(state, Policy(order="sjf"))) == ["b"]
    assert placed(passed(state, Policy(order="fcfs"))) == ["a"]
