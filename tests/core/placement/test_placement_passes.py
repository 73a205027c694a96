"""Every strategy in whole passes: devices, gangs, shared nodes, refusals."""

import random
from collections import Counter

import pytest
from hypothesis import given
from msgspec.structs import replace

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.options import AllocationOptions
from aliquot.core.allocation.options import ShareStrategy as Spreading
from aliquot.core.model.plan import Plan, still_fits
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.reasons import Reason
from allocation_devices import GB, cores, gpu, gpus, slice_of
from core_cluster import NOW_US, after, on, placed, places, row, shuffled, snapshot, waits
from core_effort import examples
from core_plan_probe import encoded
from core_strategies import snapshots
from placement_clusters import NAMES

every_strategy = pytest.mark.parametrize("name", NAMES)


def pass_of(name: str, state: Snapshot, *, seed: int = 0, options: AllocationOptions | None = None) -> Plan:
    policy = Policy(placement=name, allocation=options or AllocationOptions())
    return decide(state, policy, now_us=NOW_US, seed=seed)


@every_strategy
def test_a_share_of_0_2_goes_on_the_second_gpu_and_then_1_2_as_0_6_on_each(name: str) -> None:
    agents = [on("x", gpus(2))]
    first = snapshot(agents, [row("first", cuda_shares="0.2")])
    plan = pass_of(name, first)
    assert places(plan)["first"] == [("x", {"cuda.shares": {"cuda1": 200}})]
    then = pass_of(name, after(first, plan, queue=[row("second", cuda_shares="1.2")]))
    assert places(then)["second"] == [("x", {"cuda.shares": {"cuda0": 600, "cuda1": 600}})]


@every_strategy
@examples(60)
@given(state=snapshots())
def test_a_plan_fits_the_cluster_and_answers_every_session(name: str, state: Snapshot) -> None:
    plan = pass_of(name, state)
    used = dict(state.used)
    layouts = {agent.id: agent.layout for agent in state.agents}
    rows = {pending.session_id: pending for pending in state.queue}
    answers = [*plan.failures, *plan.verdicts, *(placement.session_id for placement in plan.placements)]
    assert sorted(answers) == sorted(rows)
    for placement in plan.placements:
        assert still_fits(placement, layouts=layouts, used=used)
        row = rows[placement.session_id]
        assert row.cluster_size <= len(placement.kernels) <= (row.kernels_max or row.cluster_size)
        assert not {kernel.agent_id for kernel in placement.kernels} & set(rows[placement.session_id].excluded_agents)


@every_strategy
@examples(40)
@given(state=snapshots())
def test_a_plan_is_the_same_bytes_whatever_the_order_of_the_input(name: str, state: Snapshot) -> None:
    mixed = shuffled(state, random.Random(1))
    assert encoded(pass_of(name, mixed, seed=3)) == encoded(pass_of(name, state, seed=3))


@every_strategy
@examples(60)
@given(state=snapshots(share_nodes=False))
def test_no_session_waits_for_devices_while_a_placement_exists(name: str, state: Snapshot) -> None:
    """With every strategy, the first session waiting for devices fits nowhere."""
    plan = pass_of(name, state)
    lacking = {Reason.INSUFFICIENT, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE}
    for pending in state.queue:
        verdict = plan.verdicts.get(pending.session_id)
        if verdict is not None and verdict.reason in lacking:
            fits = kernels_that_fit(pending, after(state, plan))
            assert fits < pending.cluster_size
            assert (verdict.evidence.fits_kernels or 0) == fits


def kernels_that_fit(pending: PendingRow, state: Snapshot) -> int:
    """Counted per agent, by allocation only."""
    options = replace(Policy().allocation, gpu_memory_bytes=pending.gpu_memory_bytes)
    open_agents = [agent for agent in state.agents if agent.is_open and agent.id not in pending.excluded_agents]
    return min(pending.cluster_size, sum(_on_agent(agent, pending, state, options) for agent in open_agents))


def _on_agent(agent: AgentRow, pending: PendingRow, state: Snapshot, options: AllocationOptions) -> int:
    devices = DeviceMap(agent.layout, state.used.get(agent.node_id, {}))
    for found in range(pending.cluster_size):
        try:
            devices = devices.apply(devices.allocate(dict(pending.request), options=options))
        except (AllocationRefused, InvalidRequest):
            return found
    return pending.cluster_size


@every_strategy
def test_a_gang_uses_the_fewest_agents(name: str) -> None:
    agents = [on("a", gpus(2)), on("b", gpus(4)), on("c", gpus(3)), on("d", gpus(1))]
    for kernels, fewest in ((3, 1), (4, 1), (6, 2), (8, 3), (10, 4)):
        plan = pass_of(name, snapshot(agents, [row("gang", kernels=kernels)]))
        given_to = Counter(agent for agent, _ in places(plan)["gang"])
        assert (sum(given_to.values()), len(given_to)) == (kernels, fewest)


@every_strategy
def test_agents_that_share_a_node_never_give_one_device_twice(name: str) -> None:
    agents = [on("x", gpus(2), node="n"), on("y", gpus(2), node="n"), on("z", gpus(2), node="n")]
    queue = [row(f"s{number}", at=number, cuda_shares="0.5") for number in range(5)]
    plan = pass_of(name, snapshot(agents, queue))
    assert placed(plan) == ["s0", "s1", "s2", "s3"]
    held = after(snapshot(agents, ()), plan).used[NodeId("n")]
    assert held == {"cuda0": 1000, "cuda1": 1000}


@every_strategy
def test_placement_tries_the_next_agent_when_one_refuses(name: str) -> None:
    """`a` and `b` have 1.6 free in sum, but only `c` has two devices with 0.8 each."""
    agents = [on("a", gpus(2)), on("b", gpus(2)), on("c", gpus(2))]
    used = {NodeId(f"node-{agent}"): {DeviceId("cuda0"): 400} for agent in "ab"}
    plan = pass_of(name, snapshot(agents, [row("wide", cuda_shares="1.6")], used=used))
    assert places(plan)["wide"] == [("c", {"cuda.shares": {"cuda0": 800, "cuda1": 800}})]


@every_strategy
def test_a_share_is_split_in_three_where_two_halves_do_not_fit(name: str) -> None:
    """1.2 does not fit as 0.6 + 0.6, but as 3 x 0.4."""
    used = {NodeId("node-a"): {DeviceId(f"cuda{index}"): 550 for index in range(3)}}
    plan = pass_of(name, snapshot([on("a", gpus(3))], [row("wide", cuda_shares="1.2")], used=used))
    assert places(plan)["wide"] == [("a", {"cuda.shares": {f"cuda{index}": 400 for index in range(3)}})]


@every_strategy
def test_sessions_avoid_excluded_agents_and_devices_with_too_little_memory(name: str) -> None:
    agents = [on("small", gpus(2, memory_bytes=24 * GB)), on("large", gpus(2)), on("other", gpus(2))]
    queue = [row("a", cuda_shares="0.5", gpu_memory_bytes=40 * GB, excluded_agents=(AgentId("other"),))]
    assert [agent for agent, _ in places(pass_of(name, snapshot(agents, queue)))["a"]] == ["large"]


@every_strategy
def test_time_slices_renamed_slots_and_mig_slices_are_placed(name: str) -> None:
    sliced = gpu(0, budget=2000)
    renamed = gpu(1, costs={"gpu.device": 1000})
    cut = gpu(2)
    agents = [on("x", [sliced, renamed, cut, slice_of(cut, 0), slice_of(cut, 1), *cores(range(4))])]
    queue = [row("pair", cuda_device="2"), row("old", at=1, gpu_device="1"), row("part", at=2, cuda_shares="0.5")]
    plan = pass_of(name, snapshot(agents, queue))
    assert placed(plan) == ["pair", "old", "part"]
    assert places(plan)["pair"] == [("x", {"cuda.device": {"cuda0": 2}})]


@every_strategy
def test_a_device_larger_than_the_score_range_is_fully_used(name: str) -> None:
    huge = gpu(0, budget=10**12)
    queue = [row("most", cuda_device="999999999"), row("last", at=1, cuda_shares="1"), row("more", at=2)]
    plan = pass_of(name, snapshot([on("x", [huge])], queue))
    assert placed(plan) == ["most", "last"]


def test_least_waste_overrules_the_tightest_device() -> None:
    """0.3 goes on the device with 0.5 and leaves 0.2, a requested size; 0.4 would leave 0.1."""
    state = snapshot(
        [on("x", gpus(3))],
        [row("a", cuda_shares="0.3")],
        used={NodeId("node-x"): {DeviceId("cuda0"): 600, DeviceId("cuda1"): 500}},
        asked={row("b", cuda_shares="0.3").request: 9, row("c", cuda_shares="0.2").request: 9},
    )
    assert places(pass_of("least_waste", state))["a"] == [("x", {"cuda.shares": {"cuda1": 300}})]
    assert places(pass_of("best_fit", state))["a"] == [("x", {"cuda.shares": {"cuda0": 300}})]
    fill = AllocationOptions(strategy=Spreading.FILL)
    assert places(pass_of("least_waste", state, options=fill))["a"] == [("x", {"cuda.shares": {"cuda2": 300}})]


def test_an_unknown_strategy_stops_the_pass() -> None:
    with pytest.raises(InvalidRequest, match="least_waste"):
        pass_of("nothing", snapshot([on("x")], [row("a")]))


def test_every_strategy_gives_insufficient_as_the_reason_on_a_full_cluster() -> None:
    for name in NAMES:
        plan = pass_of(name, snapshot([on("x", gpus(1))], [row("a"), row("b", at=1)]))
        assert placed(plan) == ["a"]
        assert waits(plan, "b").reason is Reason.INSUFFICIENT
