"""Linked devices are allocated together and gangs stay together under every strategy."""

from collections.abc import Sequence

import pytest

from aliquot.core.allocation.options import AllocationOptions, NumaPolicy
from aliquot.core.allocation.options import ShareStrategy as Spreading
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.ids import DeviceId, NodeId
from aliquot_schema.resources.devices import Device
from allocation_devices import cores, gpu, gpus
from core_cluster import NOW_US, on, places, row, snapshot
from placement_clusters import NAMES

every_strategy = pytest.mark.parametrize("name", NAMES)
every_spreading = pytest.mark.parametrize("spreading", Spreading)


def pass_of(name: str, state: Snapshot, **options: object) -> Plan:
    allocation = AllocationOptions(**options)  # type: ignore[arg-type] # checked by the dataclass's callers above
    return decide(state, Policy(placement=name, allocation=allocation), now_us=NOW_US, seed=0)


def devices_of(plan: Plan, session: str = "a") -> list[set[str]]:
    """The accelerators of each rank."""
    return [
        {device for slot in spec if slot.startswith("cuda") for device in spec[slot]}
        for _, spec in places(plan)[session]
    ]


def crossed(links: Sequence[tuple[int, int]], count: int) -> list[Device]:
    """GPUs with links between non-adjacent numbers."""
    linked: dict[int, list[DeviceId]] = {index: [] for index in range(count)}
    for one, other in links:
        linked[one].append(DeviceId(f"cuda{other}"))
    return [gpu(index, linked_to=tuple(linked[index])) for index in range(count)]


PAIRS = [(0, 2), (1, 3)]


@every_strategy
@every_spreading
@pytest.mark.parametrize("asked", [{"cuda_device": "2"}, {"cuda_shares": "2"}, {"cuda_shares": "1.2"}])
def test_linked_devices_go_together(name: str, spreading: Spreading, asked: dict[str, str]) -> None:
    plan = pass_of(name, snapshot([on("x", crossed(PAIRS, 4))], [row("a", **asked)]), strategy=spreading)
    assert devices_of(plan) in ([{"cuda0", "cuda2"}], [{"cuda1", "cuda3"}])


@every_strategy
def test_a_single_device_does_not_break_a_linked_pair(name: str) -> None:
    """A single device comes from the pair already split."""
    used = {NodeId("node-x"): {DeviceId("cuda2"): 1000}}
    queue = [row("a"), row("b", at=1, cuda_device="2")]
    plan = pass_of(name, snapshot([on("x", crossed(PAIRS, 4))], queue, used=used))
    assert devices_of(plan, "a") == [{"cuda0"}]
    assert devices_of(plan, "b") == [{"cuda1", "cuda3"}]


@every_strategy
@every_spreading
def test_devices_of_one_numa_node_go_together(name: str, spreading: Spreading) -> None:
    nodes = [0, 1, 1, 0, 1]
    found = [gpu(index, numa_node=node) for index, node in enumerate(nodes)]
    for wanted, expected in (("2", {0}), ("3", {1})):
        plan = pass_of(name, snapshot([on("x", found)], [row("a", cuda_device=wanted)]), strategy=spreading)
        assert {nodes[int(device.removeprefix("cuda"))] for device in devices_of(plan)[0]} == expected


@every_strategy
def test_the_interleave_policy_spreads_devices_over_numa_nodes(name: str) -> None:
    found = [gpu(index, numa_node=index // 2) for index in range(4)]
    plan = pass_of(name, snapshot([on("x", found)], [row("a", cuda_device="2")]), numa=NumaPolicy.INTERLEAVE)
    assert len({int(device.removeprefix("cuda")) // 2 for device in devices_of(plan)[0]}) == 2


@every_strategy
def test_each_kernel_of_a_gang_has_a_linked_pair(name: str) -> None:
    plan = pass_of(name, snapshot([on("x", crossed(PAIRS, 4))], [row("a", kernels=2, cuda_device="2")]))
    assert sorted(map(sorted, devices_of(plan))) == [["cuda0", "cuda2"], ["cuda1", "cuda3"]]


@every_strategy
def test_cores_come_from_the_numa_node_of_the_devices(name: str) -> None:
    found = [gpu(0, numa_node=0), gpu(1, numa_node=1), *cores(range(2), numa_node=0), *cores(range(2, 4), numa_node=1)]
    used = {NodeId("node-x"): {DeviceId("cuda0"): 1000}}
    plan = pass_of(name, snapshot([on("x", found)], [row("a", cpu="2", cuda_device="1")], used=used))
    assert set(places(plan)["a"][0][1]["cpu"]) == {"cpu2", "cpu3"}


@every_strategy
@pytest.mark.parametrize("asked", [{"cuda_device": "1"}, {"cuda_shares": "0.5"}, {"cpu": "2", "cuda_shares": "0.5"}])
def test_a_gang_is_placed_on_one_agent_if_it_fits(name: str, asked: dict[str, str]) -> None:
    """Small agents are tighter, larger ones emptier: neither justifies splitting a gang."""
    agents = [
        on("tight", [*gpus(2), *cores(range(4))]),
        on("right", [*gpus(4), *cores(range(8))]),
        on("half", [*gpus(3), *cores(range(6))]),
    ]
    used = {NodeId("node-half"): {DeviceId("cuda0"): 500}}
    kernels = 4 if "cuda_device" in asked or "cpu" in asked else 6
    plan = pass_of(name, snapshot(agents, [row("a", kernels=kernels, **asked)], used=used))
    assert {agent for agent, _ in places(plan)["a"]} == {"right"}


@every_strategy
def test_a_gang_with_uneven_shares_is_placed_on_one_agent(name: str) -> None:
    """1.2 never fits as 0.6 + 0.6, but twice on `wide` as three times 0.4."""
    held = {DeviceId(f"cuda{index}"): 550 for index in range(6)}
    used = {NodeId(f"node-{agent}"): dict(held) for agent in ("wide", "thin", "slim")}
    agents = [on("thin", gpus(3)), on("wide", gpus(6)), on("slim", gpus(3))]
    plan = pass_of(name, snapshot(agents, [row("a", kernels=2, cuda_shares="1.2")], used=used))
    assert [agent for agent, _ in places(plan)["a"]] == ["wide", "wide"]


@every_strategy
def test_a_gang_larger_than_an_agent_uses_the_largest_agents(name: str) -> None:
    agents = [on(f"small{number}", gpus(2)) for number in range(4)] + [on("large", gpus(5)), on("middle", gpus(3))]
    plan = pass_of(name, snapshot(agents, [row("a", kernels=8)]))
    assert {agent for agent, _ in places(plan)["a"]} == {"large", "middle"}
