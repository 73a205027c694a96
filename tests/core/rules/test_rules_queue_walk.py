"""Edge cases of a pass: sessions behind a blocked one, and what the pass tracks."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import RunningRow
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import DeviceId, NodeId, SessionId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Backfill, Preemption, PreemptScope
from aliquot_schema.reasons import Reason
from aliquot_schema.sessions import Priority
from allocation_devices import ask, gpus
from core_cluster import NOW_US, on, placed, places, row, snapshot, waits
from core_policies import BACKFILLS
from ordering_scenes import busy, passed, runs

FOUR, SIX = on("x", gpus(4)), on("x", gpus(6))
LONG_MS = 10**8


def whole(name: str, *devices: int, ends_in_s: int = 50) -> RunningRow:
    return runs(name, SIX, {"cuda.device": {f"cuda{index}": 1 for index in devices}}, ends_in_s=ends_in_s)


@pytest.mark.parametrize(
    ("behind", "starts"),
    [
        ([("two", "2", LONG_MS), ("one", "1", LONG_MS)], ["one"]),
        ([("two", "2", LONG_MS), ("brief", "2", 50_000)], ["brief"]),
        ([("two", "2", LONG_MS), ("again", "2", LONG_MS), ("brief", "2", 50_000)], ["brief"]),
        ([("two", "2", LONG_MS), ("brief", "1", 50_000), ("one", "1", LONG_MS)], ["brief", "one"]),
        ([("two", "2", LONG_MS), ("three", "3", 1000), ("one", "1", LONG_MS), ("last", "1", 1000)], ["one", "last"]),
    ],
)
def test_backfill_continues_behind_a_session_that_would_delay_the_head(
    behind: list[tuple[str, str, int]], starts: list[str]
) -> None:
    """Two of four are free; the head takes three when the others end."""
    queue = [row(name, at=at, cuda_device=size, limit_ms=limit) for at, (name, size, limit) in enumerate(behind, 1)]
    plan = passed(busy([FOUR], [whole("r", 0, 1)], [row("head", cuda_device="3"), *queue]))
    assert placed(plan) == starts
    assert waits(plan, "two").reason in (Reason.RESERVED, Reason.INSUFFICIENT)


def test_an_array_beside_the_head_starts_tasks_only_on_spare_devices() -> None:
    array = row("a", at=1, tasks=Intervals.parse("0-3"), tasks_startable=4, limit_ms=LONG_MS)
    queue = [row("head", cuda_device="4"), array, row("brief", at=2, limit_ms=50_000)]
    plan = passed(busy([SIX], [whole("r", 0, 1, 2)], queue))
    assert [(one.session_id, one.index) for one in plan.placements] == [("a", 0), ("a", 1), ("brief", None)]
    assert waits(plan, "a").reason is Reason.INSUFFICIENT


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_waiting_session_names_the_tasks_that_hold_the_devices(backfill: Backfill) -> None:
    array = row("a", tasks=Intervals.parse("3-4"), tasks_startable=2, limit_ms=1000)
    plan = passed(snapshot([FOUR], [array, row("b", at=1, cuda_device="3")]), Policy(backfill=backfill))
    assert waits(plan, "b").evidence.blocked_by == ("a_3", "a_4")


def test_a_session_started_in_a_pass_is_not_preempted_in_it_and_each_victim_only_once() -> None:
    """All sessions are alike, so only their names differ."""
    low = [replace(whole(f"r{index}", index), started_us=NOW_US, priority=Priority.LOW) for index in range(3)]
    rules = Preemption(preempt=PreemptScope.ANY, run_ms_min=0, grace_ms=0)
    queue = [row(name, at=at, priority=Priority.CRITICAL) for at, name in enumerate(["s", "t", "u", "v"])]
    plan = passed(busy([FOUR], low, queue), Policy(order="priority", backfill=Backfill.EASY, preemption=rules))
    assert placed(plan) == ["s"]
    assert [one.session_id for one in plan.evictions] == ["r0", "r1", "r2"]


def test_random_placement_is_determined_by_the_seed() -> None:
    agents = [on(f"n{number}", gpus(1)) for number in range(40)]
    state = snapshot(agents, [row("a")])

    def chosen(seed: int) -> str:
        (start,) = decide(state, Policy(placement="random"), now_us=NOW_US, seed=seed).placements
        return str(start.kernels[0].agent_id)

    assert [chosen(seed) for seed in range(8)] == [chosen(seed) for seed in range(8)]
    assert len({chosen(seed) for seed in range(8)}) > 4


@pytest.mark.parametrize("explains", [True, False])
def test_a_pass_without_explanations_gives_no_verdicts_for_the_line(explains: bool) -> None:
    held: Mapping[NodeId, Mapping[DeviceId, int]] = {NodeId("node-x"): {DeviceId("cuda0"): 1000}}
    state = snapshot([FOUR], [row("a", cuda_device="4"), row("b", cuda_device="9")], used=held)
    plan = decide(state, Policy(backfill=Backfill.EASY), now_us=NOW_US, seed=0, explains=explains)
    assert list(plan.verdicts) == (["a", "b"] if explains else ["b"])


def test_a_share_goes_on_the_device_of_the_placement_strategy_not_on_the_tightest() -> None:
    """Of three GPUs one is idle, and one has exactly the most requested share free."""
    held: Mapping[NodeId, Mapping[DeviceId, int]] = {NodeId("node-x"): {DeviceId("cuda1"): 300, DeviceId("cuda2"): 200}}
    asked = {tuple(ask(cuda_device="1").items()): 50, tuple(ask(cuda_shares="0.7").items()): 50}
    state = snapshot([on("x", gpus(3))], [row("a", cuda_shares="0.3")], used=held, asked=asked)
    liking, filling = (passed(state, Policy(placement=name)) for name in ("least_waste", "first_fit"))
    devices = [list(places(plan)["a"][0][1]["cuda.shares"]) for plan in (liking, filling)]
    assert devices == [["cuda0"], ["cuda1"]]


def test_a_preempted_session_starts_after_the_session_it_was_preempted_for() -> None:
    requeue_preempted = row("a", at=0, cuda_device="4", preempted_for=SessionId("b"))
    assert placed(passed(snapshot([FOUR], [requeue_preempted, row("b", at=1, cuda_device="4")]))) == ["b"]


def test_a_pass_without_explanations_reports_no_reservation() -> None:
    state = busy([FOUR], [whole("r", 0)], [row("head", cuda_device="4")])
    for explains in (True, False):
        plan = decide(state, Policy(backfill=Backfill.EASY), now_us=NOW_US, seed=0, explains=explains)
        assert (plan.reservation is not None) is explains
