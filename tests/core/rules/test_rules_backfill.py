"""EASY on several nodes: the head is reserved the first time it fits, and its devices stay free for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.intervals import Intervals
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from allocation_devices import gpus
from core_cluster import NOW_US, on, placed, row, waits
from core_effort import examples
from ordering_scenes import EASY, SECOND_US, busy, passed, runs

NODES = (on("x", gpus(3)), on("y", gpus(3)), on("z", gpus(3)))


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Snapshot, list[tuple[int, int, int]]]:
    """Three nodes of three, running sessions as (node, devices, seconds left), and one waiting."""
    held: list[tuple[int, int, int]] = []
    running = []
    for node in range(3):
        free = list(range(3))
        while free and draw(st.integers(0, 5)):
            size, ends_in_s = draw(st.integers(1, len(free))), draw(st.integers(1, 12))
            taken, free = free[:size], free[size:]
            spec = {"cuda.device": {f"cuda{index}": 1 for index in taken}}
            running.append(runs(f"r{len(held)}", NODES[node], spec, ends_in_s=ends_in_s))
            held.append((node, size, ends_in_s))
    size, kernels = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return busy(NODES, running, [row("head", cuda_device=str(size), kernels=kernels)]), held


@examples(150)
@given(crowds())
def test_the_head_is_promised_the_first_time_at_which_it_fits(
    found: tuple[Snapshot, list[tuple[int, int, int]]],
) -> None:
    state, held = found
    (head,) = state.queue
    size = head.request[0][1]

    def fits(at_s: int) -> bool:
        free = [
            3 - sum(count for node, count, ends_s in held if node == number and ends_s > at_s) for number in range(3)
        ]
        return sum(count // size for count in free) >= head.cluster_size

    plan = passed(state)
    if size * head.cluster_size > 9 or 3 // size * 3 < head.cluster_size:
        assert waits(plan, "head").reason is Reason.NO_AGENT
    elif fits(0):
        assert placed(plan) == ["head"]
    else:
        assert plan.reservation is not None
        first = next(at_s for at_s in range(1, 13) if fits(at_s))
        assert plan.reservation.at_us == NOW_US + first * SECOND_US


def test_the_reservation_of_the_head_moves_for_a_longer_session_and_is_kept_there() -> None:
    """It can have y's GPUs instead of x's, and then x is free for a long session."""
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    running = [
        runs("a", agents[0], {"cuda.device": {"cuda0": 1}}, ends_in_s=50),
        runs("b", agents[1], {"cuda.device": {"cuda0": 1, "cuda1": 1}}, ends_in_s=50),
    ]
    queue = [row("head", cuda_device="2"), *(row(f"long{i}", at=1 + i, limit_ms=60_000) for i in range(3))]
    plan = passed(busy(agents, running, queue), replace(EASY, placement="first_fit"))
    assert placed(plan) == ["long0"]
    assert plan.reservation is not None
    taken = {
        (kernel.agent_id, device) for kernel in plan.placements[0].kernels for device in kernel.spec["cuda.device"]
    }
    kept = {(kernel.agent_id, device) for kernel in plan.reservation.kernels for device in kernel.spec["cuda.device"]}
    assert not taken & kept
    assert {agent for agent, _ in kept} == {"y"}


def test_the_reservation_of_the_head_does_not_move_where_the_head_would_not_fit() -> None:
    """Enough is free in sum at its start, one GPU on each node, but it needs two on one."""
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    running = [
        runs("a", agents[0], {"cuda.device": {"cuda0": 1}}, ends_in_s=50),
        runs("b", agents[1], {"cuda.device": {"cuda0": 1}}, ends_in_s=50),
        runs("c", agents[1], {"cuda.device": {"cuda1": 1}}, ends_in_s=500),
    ]
    queue = [row("head", cuda_device="2"), row("long", at=1, limit_ms=60_000)]
    plan = passed(busy(agents, running, queue))
    assert placed(plan) == []
    assert waits(plan, "long").reason is Reason.RESERVED


def test_a_running_session_without_counted_devices_does_not_break_a_pass() -> None:
    """Unreadable files: a session runs on a device, but none of it is counted."""
    agents = [on("x", gpus(2)), on("y", gpus(2))]
    running = [runs("a", agents[0], {"cuda.device": {"cuda0": 1}}, ends_in_s=50)]
    full = {NodeId("node-y"): {DeviceId("cuda0"): 1000, DeviceId("cuda1"): 1000}}
    state = replace(busy(agents, running, [row("head", cuda_device="2")]), used=full)
    assert placed(passed(state)) == ["head"]
    part = {NodeId("node-x"): {DeviceId("cuda1"): 1000}, **full}
    plan = passed(replace(state, used=part), Policy(backfill=Backfill.EASY))
    assert (placed(plan), plan.reservation) == ([], None)


def test_a_session_with_a_zero_time_limit_holds_its_devices_in_conservative_backfill() -> None:
    four = on("x", gpus(4))
    queue = [row("none", limit_ms=0, cuda_device="4"), row("next", at=1, limit_ms=0, cuda_device="4")]
    plan = passed(busy([four], [], queue), Policy(backfill=Backfill.CONSERVATIVE))
    assert placed(plan) == ["none"]
    assert [one.session_id for one in plan.promises] == ["next"]


def test_the_time_of_a_reservation_is_exact_to_the_microsecond() -> None:
    two = on("x", gpus(2))
    held = runs("a", two, {"cuda.device": {"cuda0": 1}}, ends_in_s=0)
    for ends_us in (NOW_US + 2, NOW_US + 3):
        state = busy([two], [replace(held, ends_us=ends_us)], [row("head", cuda_device="2")])
        for backfill in (Backfill.EASY, Backfill.CONSERVATIVE):
            promise = passed(state, Policy(backfill=backfill)).reservation
            assert promise is not None
            assert promise.at_us == ends_us


@pytest.mark.parametrize("backfill", Backfill)
@pytest.mark.parametrize(("startable", "starts"), [(0, 0), (1, 1), (2, 2), (3, 3), (5, 4)])
def test_an_array_starts_as_many_tasks_as_are_allowed_and_fit(backfill: Backfill, startable: int, starts: int) -> None:
    four = on("x", gpus(4))
    array = row("a", tasks=Intervals.parse("0-4"), tasks_startable=startable, limit_ms=1000)
    plan = passed(busy([four], [], [array]), Policy(backfill=backfill))
    assert [one.index for one in plan.placements] == list(range(starts))
    reason = Reason.ARRAY_LIMIT if startable == starts else Reason.INSUFFICIENT
    assert waits(plan, "a").reason is reason
