"""EASY backfill: the head's reservation, and what may pass it."""

from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.prediction import RunTimes, Workload
from aliquot_schema.ids import DeviceId, NodeId, UserId
from aliquot_schema.policies import Backfill, Pool
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import DEFAULT_POOL
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, waits
from ordering_scenes import EASY, SECOND_US, busy, passed, runs

HOUR_MS = 3_600_000
TWO = on("x", gpus(2))
FOUR = on("x", gpus(4))


def holds(*devices: int) -> dict[str, dict[str, int]]:
    return {"cuda.device": {f"cuda{index}": 1 for index in devices}}


def test_the_reservation_of_the_head_is_when_the_last_needed_device_becomes_free() -> None:
    running = [runs("a", FOUR, holds(0, 1), ends_in_s=50), runs("b", FOUR, holds(2), ends_in_s=20)]
    state = busy([FOUR], running, [row("head", cuda_device="2")])
    promise = passed(state).reservation
    assert promise is not None
    assert (promise.session_id, promise.at_us) == ("head", NOW_US + 20 * SECOND_US)
    assert [kernel.spec for kernel in promise.kernels] == [{"cuda.device": {"cuda2": 1, "cuda3": 1}}]


def test_backfill_starts_sessions_that_end_in_time_or_fit_on_spare_devices() -> None:
    running = [runs("a", FOUR, holds(0, 1), ends_in_s=50)]
    queue = [
        row("head", at=0, cuda_device="3"),
        row("long", at=1, limit_ms=60_000),
        row("longer", at=2, limit_ms=61_000),
        row("short", at=3, limit_ms=50_000),
    ]
    plan = passed(busy([FOUR], running, queue))
    assert placed(plan) == ["long", "short"]
    assert waits(plan, "head").reason is Reason.INSUFFICIENT
    assert waits(plan, "longer").reason is Reason.INSUFFICIENT


def test_a_session_that_would_delay_the_head_waits_with_reason_reserved() -> None:
    running = [runs("a", TWO, holds(0), ends_in_s=50)]
    queue = [row("head", cuda_device="2"), row("late", at=1, limit_ms=51_000)]
    plan = passed(busy([TWO], running, queue))
    assert placed(plan) == []
    verdict = waits(plan, "late")
    assert verdict.reason is Reason.RESERVED
    assert verdict.evidence.blocked_by == ("head",)
    assert verdict.evidence.until_us == NOW_US + 50 * SECOND_US


def test_an_overdue_session_is_expected_to_run_on_for_as_long_as_it_has_overrun() -> None:
    for overrun_s, runs_on_s in ((0, 60), (5, 60), (60, 60), (61, 61), (7200, 7200)):
        running = [runs("a", TWO, holds(0), ends_in_s=-overrun_s)]
        queue = [
            row("head", cuda_device="2"),
            row("long", at=1, limit_ms=runs_on_s * 1000 + 1),
            row("short", at=2, limit_ms=runs_on_s * 1000),
        ]
        plan = passed(busy([TWO], running, queue))
        assert placed(plan) == ["short"]
        assert waits(plan, "long").reason is Reason.INSUFFICIENT
        assert plan.reservation is not None
        assert plan.reservation.at_us == NOW_US + runs_on_s * SECOND_US


def test_the_head_gets_devices_that_become_free_before_those_of_a_session_long_overdue() -> None:
    running = [
        runs("overdue", FOUR, holds(0, 1), ends_in_s=-7200),
        runs("ends", FOUR, holds(2), ends_in_s=50),
    ]
    queue = [row("head", cuda_device="2"), row("small", at=1, limit_ms=HOUR_MS)]
    plan = passed(busy([FOUR], running, queue))
    assert placed(plan) == []
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 50 * SECOND_US
    assert [kernel.spec for kernel in plan.reservation.kernels] == [{"cuda.device": {"cuda2": 1, "cuda3": 1}}]
    verdict = waits(plan, "small")
    assert (verdict.reason, verdict.evidence.until_us) == (Reason.RESERVED, NOW_US + 50 * SECOND_US)


def test_backfill_without_a_time_limit_uses_the_estimate_or_an_hour() -> None:
    for ends_in_s, passing in ((3600, (1000, HOUR_MS, None)), (3599, (1000,)), (59, ())):
        running = [runs("a", TWO, holds(0), ends_in_s=ends_in_s)]
        for estimate_ms in (1000, HOUR_MS, HOUR_MS + 1, None):
            queue = [row("head", cuda_device="2"), row("next", at=1, estimate_ms=estimate_ms)]
            assert placed(passed(busy([TWO], running, queue))) == (["next"] if estimate_ms in passing else [])


def test_backfill_without_a_time_limit_uses_the_median_of_similar_runs() -> None:
    kind = Workload(user=UserId("ann"), program="train.py", milli=1000, limit_ms=None)
    running = [runs("a", TWO, holds(0), ends_in_s=3600)]
    for median_ms, passes in ((HOUR_MS, True), (HOUR_MS + 1, False)):
        queue = [row("head", cuda_device="2"), row("next", at=1, workload=kind)]
        known = {kind: RunTimes(20 * HOUR_MS, median_ms)}
        state = replace(busy([TWO], running, queue), run_times=known)
        assert placed(passed(state)) == (["next"] if passes else [])


def test_the_default_limit_of_a_pool_replaces_a_missing_time_limit() -> None:
    running = [runs("a", TWO, holds(0), ends_in_s=50)]
    queue = [row("head", cuda_device="2"), row("next", at=1, estimate_ms=HOUR_MS)]
    policy = Policy(backfill=Backfill.EASY, pools={DEFAULT_POOL: Pool(default_limit_ms=50_000)})
    assert placed(passed(busy([TWO], running, queue), policy)) == ["next"]


def test_the_reservation_of_the_head_counts_sessions_started_in_the_same_pass() -> None:
    queue = [
        row("first", at=0, limit_ms=10_000),
        row("head", at=1, cuda_device="2"),
        row("long", at=2, limit_ms=10_001),
        row("short", at=3, limit_ms=10_000),
    ]
    assert placed(passed(busy([TWO], [], queue))) == ["first", "short"]


def test_shares_are_backfilled_on_devices_not_reserved_for_the_head() -> None:
    running = [
        runs("a", TWO, {"cuda.shares": {"cuda0": 500}}, ends_in_s=50),
        runs("b", TWO, {"cuda.shares": {"cuda1": 700}}, ends_in_s=90),
    ]
    queue = [
        row("head", cuda_device="1"),
        *(row(f"s{i}", at=1 + i, cuda_shares="0.3", limit_ms=99_000) for i in (1, 2)),
    ]
    plan = passed(busy([TWO], running, queue))
    assert [kernel.spec for placement in plan.placements for kernel in placement.kernels] == [
        {"cuda.shares": {"cuda1": 300}}
    ]
    assert waits(plan, "s2").reason is Reason.RESERVED


def test_a_gang_at_the_head_gets_a_reservation_on_several_agents() -> None:
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    running = [runs("a", agents[0], holds(0, 1), ends_in_s=50)]
    queue = [row("head", kernels=3), row("long", at=1, limit_ms=51_000), row("longer", at=2, limit_ms=51_000)]
    plan = passed(busy(agents, running, queue))
    assert placed(plan) == ["long"]
    assert waits(plan, "head").reason is Reason.GANG_INCOMPLETE
    assert waits(plan, "longer").reason is Reason.RESERVED


def test_a_holder_without_a_known_end_gives_no_reservation_and_allows_backfill() -> None:
    state = busy(
        [TWO], [], [row("head", cuda_device="2"), row("next", at=1)], used={NodeId("node-x"): {DeviceId("cuda0"): 1000}}
    )
    plan = passed(state)
    assert placed(plan) == ["next"]
    assert plan.reservation is None
    assert waits(plan, "head").reason is Reason.INSUFFICIENT


def test_sessions_that_end_at_the_same_time_release_their_devices_together() -> None:
    running = [runs("a", FOUR, holds(0, 1), ends_in_s=50), runs("b", FOUR, holds(2, 3), ends_in_s=50)]
    queue = [row("head", cuda_device="2")]
    assert passed(busy([FOUR], running, queue), EASY).reservation is not None
    queue.append(row("beside", at=1, cuda_device="2"))
    running[1] = runs("b", FOUR, holds(2), ends_in_s=50)
    queue = [row("head", cuda_device="3"), row("beside", at=1, limit_ms=HOUR_MS)]
    assert placed(passed(busy([FOUR], running, queue))) == ["beside"]


def test_spare_devices_beside_the_head_are_granted_once() -> None:
    seven = on("x", gpus(7))
    running = [runs("a", seven, holds(0, 1, 2), ends_in_s=50)]
    queue = [row("head", cuda_device="5"), *(row(f"long{i}", at=1 + i, limit_ms=HOUR_MS) for i in range(3))]
    plan = passed(busy([seven], running, queue))
    assert placed(plan) == ["long0", "long1"]
    assert waits(plan, "long2").reason is Reason.RESERVED


def test_a_spare_share_of_a_device_beside_the_head_is_granted_once() -> None:
    running = [runs("a", TWO, holds(0), ends_in_s=50)]
    longs = [row(f"long{i}", at=1 + i, cuda_shares="0.3", limit_ms=HOUR_MS) for i in range(2)]
    plan = passed(busy([TWO], running, [row("head", kernels=3, cuda_shares="0.5"), *longs]))
    assert placed(plan) == ["long0"]
    assert waits(plan, "long1").reason is Reason.RESERVED
