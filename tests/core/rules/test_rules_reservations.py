"""Edge cases of reservations: the first sufficient step, however it is found, and the devices."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import ANYWHERE, AgentRow, RunningRow
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.policies import Backfill
from aliquot_schema.reasons import Reason
from allocation_devices import SHARES, WHOLE, cores, gpu, gpus
from core_cluster import NOW_US, on, placed, row, snapshot, waits
from core_policies import PROMISING
from ordering_scenes import EASY, SECOND_US, busy, passed, runs

TWO = on("x", gpus(2))
CONSERVATIVE = Policy(backfill=Backfill.CONSERVATIVE)


def whole(name: str, agent: AgentRow, *devices: int, ends_in_s: int) -> RunningRow:
    return runs(name, agent, {"cuda.device": {f"cuda{index}": 1 for index in devices}}, ends_in_s=ends_in_s)


def pairs(nodes: int, *, singles: int) -> tuple[Sequence[AgentRow], Sequence[RunningRow]]:
    """Nodes of two GPUs, all held: `singles` nodes free one GPU each, then the first its other one."""
    agents = [on(f"n{number}", gpus(2)) for number in range(nodes)]
    first = [whole(f"a{number}", agent, 0, ends_in_s=10 * (number + 1)) for number, agent in enumerate(agents)]
    ends = [10 * singles + 5, *(1000 + number for number in range(1, nodes))]
    other = [whole(f"b{number}", agent, 1, ends_in_s=ends[number]) for number, agent in enumerate(agents)]
    return agents, [*first, *other]


@pytest.mark.parametrize("backfill", PROMISING)
@pytest.mark.parametrize("singles", range(1, 12))
def test_a_reservation_waits_until_enough_devices_are_free_on_one_node(backfill: Backfill, singles: int) -> None:
    agents, running = pairs(12, singles=singles)
    plan = passed(busy(agents, running, [row("head", cuda_device="2")]), Policy(backfill=backfill))
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + (10 * singles + 5) * SECOND_US
    assert {kernel.agent_id for kernel in plan.reservation.kernels} == {"n0"}


@pytest.mark.parametrize("backfill", PROMISING)
def test_the_reservation_of_a_head_with_gpus_and_cores_is_when_both_are_free(backfill: Backfill) -> None:
    agent = on("x", [*gpus(2), *cores(range(4))])
    running = [
        runs("a", agent, {"cuda.device": {"cuda0": 1}}, ends_in_s=10),
        runs("b", agent, {"cpu": {"cpu0": 1, "cpu1": 1}}, ends_in_s=20),
    ]
    plan = passed(busy([agent], running, [row("head", cuda_device="2", cpu="3")]), Policy(backfill=backfill))
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 20 * SECOND_US


@pytest.mark.parametrize("backfill", PROMISING)
def test_a_device_of_two_units_is_released_unit_by_unit(backfill: Backfill) -> None:
    """Enough is always free in sum, but on a model that the head does not accept."""
    agent, other = on("x", [gpu(0, costs={WHOLE: 500, SHARES: 1})]), on("y", gpus(1, model="A100"))
    running = [whole(name, agent, 0, ends_in_s=ends_s) for name, ends_s in (("a", 10), ("b", 20))]
    head = row("head", cuda_shares="1", where=replace(ANYWHERE, models=("H100",)))
    plan = passed(busy([agent, other], running, [head]), Policy(backfill=backfill))
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 20 * SECOND_US


@pytest.mark.parametrize("backfill", PROMISING)
def test_a_session_of_a_gone_agent_is_expected_to_release_its_devices(backfill: Backfill) -> None:
    """Another agent of the node has its devices now."""
    before = whole("a", replace(TWO, id=AgentId("before")), 0, ends_in_s=10)
    used = {NodeId("node-x"): {DeviceId("cuda0"): 1000}}
    state = snapshot([TWO], [row("head", cuda_device="2")], running=(before,), used=used)
    plan = passed(state, Policy(backfill=backfill))
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 10 * SECOND_US


def test_a_session_that_outlasts_the_head_is_not_placed_on_a_device_in_use() -> None:
    """The head waits for an A100. On the H100s one session ends before its start, and longer ones arrive."""
    agent = on("x", [*gpus(3), gpu(3, model="A100"), gpu(4, model="A100")])
    running = [whole("a", agent, 3, ends_in_s=50), whole("b", agent, 2, ends_in_s=20)]
    old, new = (replace(ANYWHERE, models=(model,)) for model in ("A100", "H100"))
    queue = [
        row("head", cuda_device="2", where=old),
        *(row(f"long{number}", at=1 + number, limit_ms=60_000, where=new) for number in range(3)),
    ]
    plan = passed(busy([agent], running, queue))
    taken = [list(kernel.spec[WHOLE]) for one in plan.placements for kernel in one.kernels]
    assert sorted(taken) == [["cuda0"], ["cuda1"]]
    assert waits(plan, "long2").reason is Reason.INSUFFICIENT


def test_two_equal_sessions_without_a_possible_reservation_both_wait() -> None:
    used = {NodeId("node-x"): {DeviceId("cuda0"): 1000}}
    queue = [row("a", cuda_device="2"), row("b", at=1, cuda_device="2"), row("c", at=2)]
    plan = passed(busy([TWO], [], queue, used=used), CONSERVATIVE)
    assert (placed(plan), plan.promises) == (["c"], ())
    assert [waits(plan, name).reason for name in "ab"] == [Reason.INSUFFICIENT] * 2


def test_equal_sessions_beyond_the_backfill_depth_get_the_same_verdict() -> None:
    running = [whole("r", TWO, 0, ends_in_s=50)]
    queue = [row("head", cuda_device="2"), *(row(name, at=at, limit_ms=60_000) for at, name in enumerate("ab", 1))]
    plan = passed(busy([TWO], running, queue), replace(CONSERVATIVE, backfill_depth=1))
    assert placed(plan) == []
    assert [one.session_id for one in plan.promises] == ["head"]
    assert [waits(plan, name).reason for name in "ab"] == [Reason.RESERVED] * 2


def test_two_half_gpu_sessions_get_reservations_on_one_device_at_the_same_time() -> None:
    agent = on("x", gpus(1))
    queue = [row(name, at=at, cuda_shares="0.5", limit_ms=5000) for at, name in enumerate("abc")]
    plan = passed(busy([agent], [whole("r", agent, 0, ends_in_s=50)], queue), CONSERVATIVE)
    assert {str(one.session_id): one.at_us for one in plan.promises} == {
        "a": NOW_US + 50 * SECOND_US,
        "b": NOW_US + 50 * SECOND_US,
        "c": NOW_US + 55 * SECOND_US,
    }


def test_a_session_with_a_longer_time_limit_waits_for_a_longer_gap() -> None:
    running = [whole("r", TWO, 0, ends_in_s=50)]
    queue = [
        row("head", cuda_device="2", limit_ms=10_000),
        row("long", at=1, limit_ms=51_000),
        row("short", at=2, limit_ms=50_000),
    ]
    plan = passed(busy([TWO], running, queue), CONSERVATIVE)
    assert placed(plan) == ["short"]
    assert {str(one.session_id): one.at_us for one in plan.promises} == {
        "head": NOW_US + 50 * SECOND_US,
        "long": NOW_US + 60 * SECOND_US,
    }
    assert placed(passed(busy([TWO], running, queue), EASY)) == ["short"]


def test_a_device_without_counted_use_is_free_despite_a_running_session() -> None:
    """Unreadable files: a session runs on a device, but none of it is counted."""
    running = (whole("a", TWO, 0, ends_in_s=50),)
    state = snapshot([TWO], [row("long", cuda_device="2", limit_ms=99_000)], running=running)
    assert placed(passed(state, CONSERVATIVE)) == ["long"]


@pytest.mark.parametrize("backfill", PROMISING)
def test_devices_released_on_a_closed_agent_are_not_reserved(backfill: Backfill) -> None:
    closed = on("y", gpus(2), is_open=False)
    running = [whole("a", closed, 0, 1, ends_in_s=10), whole("b", TWO, 0, ends_in_s=50)]
    plan = passed(busy([TWO, closed], running, [row("head", cuda_device="2")]), Policy(backfill=backfill))
    assert plan.reservation is not None
    assert plan.reservation.at_us == NOW_US + 50 * SECOND_US


def test_two_half_gpu_sessions_start_together_on_an_idle_device() -> None:
    queue = [row(name, at=at, cuda_shares="0.5", limit_ms=5000) for at, name in enumerate("abc")]
    plan = passed(busy([on("x", gpus(1))], [], queue), CONSERVATIVE)
    assert placed(plan) == ["a", "b"]
    assert [one.at_us for one in plan.promises] == [NOW_US + 5 * SECOND_US]


def test_a_core_reserved_for_the_head_is_used_only_by_a_session_that_ends_before() -> None:
    agent = on("x", cores(range(2)))
    running = [runs("r", agent, {"cpu": {"cpu0": 1}}, ends_in_s=50)]
    queue = [
        row("head", cpu="2"),
        *(row(name, at=1, cpu="1", limit_ms=ms) for name, ms in (("a", 60_000), ("b", 9000))),
    ]
    plan = passed(busy([agent], running, queue))
    assert placed(plan) == ["b"]


def test_shares_held_for_a_short_and_a_long_time_on_one_device_are_added_up() -> None:
    """The head waits for the A100; four fifths of the first H100 are held, part of it until the head starts."""
    agent = on("x", [*gpus(2), gpu(2, model="A100")])
    shares = ((0, 500, 20), (0, 300, 10**6), (2, 1000, 50))
    running = [
        runs(f"r{ends_s}", agent, {"cuda.shares": {f"cuda{device}": milli}}, ends_in_s=ends_s)
        for device, milli, ends_s in shares
    ]
    old, new = (replace(ANYWHERE, models=(model,)) for model in ("A100", "H100"))
    long = row("long", at=1, cuda_shares="0.5", limit_ms=60_000, where=new)
    plan = passed(busy([agent], running, [row("head", where=old), long]))
    assert [kernel.spec for one in plan.placements for kernel in one.kernels] == [{SHARES: {"cuda1": 500}}]
