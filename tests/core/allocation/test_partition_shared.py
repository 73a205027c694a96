"""Agents that share a node: no device is allocated beyond its budget, even by stale plans."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.allocation.node_partition import auto_split
from aliquot.core.allocation.occupancy import occupancy_on
from aliquot.core.model.plan import still_fits
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PendingRow, Snapshot
from aliquot.core.placement.strategies import STRATEGIES
from aliquot.core.scheduler.decide import decide
from aliquot.core.scheduler.free_capacity import FreeCapacity
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.resources.devices import Device
from allocation_devices import cores, gpu, gpus, pool, slice_of
from core_cluster import NOW_US, decided, on, placed, row, snapshot, waits
from core_strategies import queues

NODE = "node"


def sharing(devices: tuple[Device, ...], *, agents: int = 2) -> list[AgentRow]:
    return [on(f"agent-{number}", devices, node=NODE) for number in range(1, agents + 1)]


def splitting(devices: tuple[Device, ...], *, agents: int) -> list[AgentRow]:
    names = [AgentId(f"agent-{number}") for number in range(1, agents + 1)]
    parts = auto_split(devices, agents=names)
    return [on(name, part, node=NODE) for name, part in parts.items() if part]


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Device, ...]:
    wholes = gpus(draw(st.integers(1, 4)))
    slices = (slice_of(wholes[0], 7), slice_of(wholes[0], 8)) if draw(st.booleans()) else ()
    return (*wholes, *slices, *cores(range(draw(st.integers(1, 6)))), pool(0, size=4096))


@given(
    node=nodes(),
    agents=st.integers(1, 3),
    are_shared=st.booleans(),
    first=queues(prefix="a"),
    second=queues(prefix="b"),
    strategy=st.sampled_from(sorted(STRATEGIES)),
)
def test_no_device_of_a_node_is_ever_given_beyond_its_budget(
    node: tuple[Device, ...],
    agents: int,
    are_shared: bool,
    first: list[PendingRow],
    second: list[PendingRow],
    strategy: str,
) -> None:
    """Two plans are made from one state, as by a replaced leader; only placements that pass the re-check commit."""
    rows = sharing(node, agents=agents) if are_shared else splitting(node, agents=agents)
    layouts = {agent.id: agent.layout for agent in rows}
    devices = {device.id: device for layout in layouts.values() for device in layout.devices.values()}
    used: dict[NodeId, Mapping[DeviceId, int]] = {}
    given_specs = []
    for queue in (first, second):
        plan = decide(snapshot(rows, queue), Policy(placement=strategy), now_us=NOW_US, seed=0)
        for placement in plan.placements:
            if still_fits(placement, layouts=layouts, used=used):
                given_specs += [kernel.spec for kernel in placement.kernels]
                assert all(own(layouts[kernel.agent_id].devices, kernel.spec) for kernel in placement.kernels)
        if queue is first:
            assert len(given_specs) == sum(len(placement.kernels) for placement in plan.placements)
    held = occupancy_on(given_specs, devices)
    assert {device_id: amount for device_id, amount in used.get(NodeId(NODE), {}).items() if amount} == held
    assert all(amount <= devices[device_id].budget for device_id, amount in held.items())
    assert not any(held.get(device_id) and held.get(devices[device_id].parent or DeviceId("")) for device_id in held)
    whole = {device.id: device.budget for device in node}
    memory = sum(amount for device_id, amount in held.items() if devices[device_id].kind == "mem")
    assert memory <= whole[DeviceId("mem0")]


def own(devices: Mapping[DeviceId, Device], spec: Mapping[str, Mapping[DeviceId, int]]) -> bool:
    return all(device_id in devices for amounts in spec.values() for device_id in amounts)


@given(node=nodes(), agents=st.integers(1, 4), held=st.integers(0, 1000))
def test_the_cluster_counts_a_device_once_however_many_agents_see_it(
    node: tuple[Device, ...], agents: int, held: int
) -> None:
    used = {NodeId(NODE): {DeviceId("cuda0"): held}}

    def free(rows: list[AgentRow]) -> int:
        return FreeCapacity(Snapshot(revision=1, agents=tuple(rows), used=used, queue=()), Policy()).free_milli()

    alone = free(sharing(node, agents=1))
    assert free(sharing(node, agents=agents)) == alone
    assert free(splitting(node, agents=agents)) == alone


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_two_agents_fill_the_gpus_they_share_and_the_next_one_waits(strategy: str) -> None:
    rows = sharing((*gpus(2), *cores(range(8)), pool(0, size=4096)))
    queue = [row(f"s{number}", at=number, cuda_shares="0.5") for number in range(5)]
    plan = decide(snapshot(rows, queue), Policy(placement=strategy), now_us=NOW_US, seed=0)
    assert placed(plan) == ["s0", "s1", "s2", "s3"]
    assert str(waits(plan, "s4").reason) == "insufficient"


def test_a_gang_over_agents_that_share_gets_every_device_once() -> None:
    plan = decided(sharing(gpus(3)), [row("gang", kernels=3, cuda_device="1")])
    devices = [device_id for kernel in plan.placements[0].kernels for ids in kernel.spec.values() for device_id in ids]
    assert sorted(devices) == ["cuda0", "cuda1", "cuda2"]
    too_large = decided(sharing(gpus(3)), [row("gang", kernels=4, cuda_device="1")])
    assert str(waits(too_large, "gang").reason) == "no_agent"


def test_memory_held_since_before_the_node_was_divided_blocks_all_its_pieces() -> None:
    rows = splitting((gpu(0), pool(0, size=4096)), agents=2)
    before = {NodeId(NODE): {DeviceId("mem0"): 4096}}
    plan = decided(rows, [row("a", mem="1k")], used=before)
    assert placed(plan) == []
    assert placed(decided(rows, [row("a", mem="1k")], used={})) == ["a"]
