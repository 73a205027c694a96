"""Affinity: linked devices, NUMA nodes, and cores and memory near the accelerators."""

import pytest

from aliquot.core.allocation import AllocationOptions, DeviceMap, NumaPolicy, ShareStrategy
from aliquot_schema.errors import InsufficientResource, NotMultipleOfQuantum
from aliquot_schema.ids import DeviceId
from aliquot_schema.resources.devices import Device
from allocation_devices import CPU, GB, MEM, SHARES, WHOLE, amounts_of, ask, cores, gpu, gpus, pool

INTERLEAVE = AllocationOptions(numa=NumaPolicy.INTERLEAVE)


def _two_nodes(per_node: int = 4) -> tuple[Device, ...]:
    return tuple(gpu(index, numa_node=index // per_node) for index in range(2 * per_node))


def _linked_pairs() -> tuple[Device, ...]:
    return tuple(gpu(index, numa_node=index // 4, linked_to=(DeviceId(f"cuda{index ^ 1}"),)) for index in range(8))


def _host(per_node: int = 4) -> tuple[Device, ...]:
    low, high = cores(range(per_node), numa_node=0), cores(range(per_node, 2 * per_node), numa_node=1)
    return (*low, *high, pool(0, size=64 * GB, numa_node=0), pool(1, size=64 * GB, numa_node=1))


def _given(devices: tuple[Device, ...], held: tuple[int, ...], count: int, options: AllocationOptions) -> list[str]:
    state = DeviceMap.of(devices).apply({WHOLE: {DeviceId(f"cuda{index}"): 1 for index in held}})
    return sorted(amounts_of(state.allocate({WHOLE: count}, options=options), WHOLE))


@pytest.mark.parametrize("strategy", list(ShareStrategy))
@pytest.mark.parametrize(
    ("held", "count", "expected"),
    [
        ((0,), 3, ["cuda1", "cuda2", "cuda3"]),
        ((0,), 4, ["cuda4", "cuda5", "cuda6", "cuda7"]),
        ((0, 1, 7), 1, ["cuda2", "cuda3"]),
        ((0, 1), 2, ["cuda2", "cuda3"]),
        ((), 8, [f"cuda{index}" for index in range(8)]),
    ],
)
def test_whole_devices_come_from_the_smallest_numa_node_with_enough(
    held: tuple[int, ...], count: int, expected: list[str], strategy: ShareStrategy
) -> None:
    given = _given(_two_nodes(), held, count, AllocationOptions(strategy=strategy))
    assert set(given) <= set(expected)
    assert len(given) == count


def test_without_a_large_enough_numa_node_the_one_with_the_most_free_devices_is_used_up() -> None:
    assert _given(_two_nodes(), (0,), 6, AllocationOptions())[-4:] == ["cuda4", "cuda5", "cuda6", "cuda7"]


def test_interleaving_takes_devices_from_the_numa_nodes_in_turn() -> None:
    given = _given(_two_nodes(), (), 4, INTERLEAVE)
    assert [name in ("cuda0", "cuda1", "cuda2", "cuda3") for name in given].count(True) == 2


@pytest.mark.parametrize(
    ("held", "expected"), [((0,), {"cuda2", "cuda3"}), ((0, 2), {"cuda4", "cuda5", "cuda6", "cuda7"})]
)
def test_two_devices_are_a_linked_pair_where_possible(held: tuple[int, ...], expected: set[str]) -> None:
    given = _given(_linked_pairs(), held, 2, AllocationOptions())
    assert set(given) <= expected
    assert {int(name[-1]) // 2 for name in given} == {int(given[0][-1]) // 2}


def test_a_single_device_is_not_taken_from_a_free_linked_pair() -> None:
    assert _given(_linked_pairs(), (2,), 1, AllocationOptions()) == ["cuda3"]


def test_parts_of_a_split_share_prefer_one_numa_node() -> None:
    devices = tuple(gpu(index, numa_node=index % 2) for index in range(4))
    given = amounts_of(DeviceMap.of(devices).allocate(ask(cuda_shares="1.2")), SHARES)
    assert given in ({"cuda0": 600, "cuda2": 600}, {"cuda1": 600, "cuda3": 600})


def test_cores_and_memory_come_from_the_numa_node_of_the_accelerator() -> None:
    state = DeviceMap.of((*_two_nodes(), *_host())).apply({WHOLE: {DeviceId(f"cuda{i}"): 1 for i in range(4)}})
    spec = state.allocate(ask(cuda_device="1", cpu="3", mem="8g"))
    assert amounts_of(spec, CPU) == {"cpu4": 1, "cpu5": 1, "cpu6": 1}
    assert amounts_of(spec, MEM) == {"mem1": 8 * 1024**3}


def test_cores_near_the_accelerator_are_used_before_others() -> None:
    state = DeviceMap.of((*_two_nodes(), *_host())).apply({WHOLE: {DeviceId(f"cuda{i}"): 1 for i in range(4)}})
    spec = state.allocate(ask(cuda_device="1", cpu="5"))
    assert amounts_of(spec, CPU) == {"cpu0": 1, "cpu4": 1, "cpu5": 1, "cpu6": 1, "cpu7": 1}


def test_cores_are_spread_over_the_numa_nodes_of_the_accelerators() -> None:
    spec = DeviceMap.of((*_two_nodes(), *_host())).allocate(ask(cuda_device="8", cpu="4"))
    assert amounts_of(spec, CPU) == {"cpu0": 1, "cpu1": 1, "cpu4": 1, "cpu5": 1}


def test_cores_without_an_accelerator_come_from_the_smallest_numa_node_with_enough() -> None:
    state = DeviceMap.of(_host()).apply({CPU: {DeviceId("cpu4"): 1}})
    assert amounts_of(state.allocate(ask(cpu="3")), CPU) == {"cpu5": 1, "cpu6": 1, "cpu7": 1}
    assert amounts_of(state.allocate(ask(cpu="4")), CPU) == {f"cpu{number}": 1 for number in range(4)}


def test_memory_comes_from_the_numa_node_of_the_cores() -> None:
    state = DeviceMap.of(_host()).apply({CPU: {DeviceId("cpu4"): 1}})
    assert amounts_of(state.allocate(ask(cpu="3", mem="1g")), MEM) == {"mem1": 1024**3}


def test_memory_larger_than_a_pool_comes_from_several() -> None:
    spec = DeviceMap.of(_host()).allocate({MEM: 100 * GB})
    assert sorted(amounts_of(spec, MEM).values()) == [36 * GB, 64 * GB]


def test_interleaved_cores_come_from_the_numa_nodes_in_turn() -> None:
    spec = DeviceMap.of(_host()).allocate(ask(cpu="4"), options=INTERLEAVE)
    assert amounts_of(spec, CPU) == {"cpu0": 1, "cpu1": 1, "cpu4": 1, "cpu5": 1}


def test_more_cores_than_the_host_has_are_refused() -> None:
    with pytest.raises(InsufficientResource) as caught:
        DeviceMap.of((*gpus(1), *_host())).allocate(ask(cuda_device="1", cpu="9"))
    assert (caught.value.slot, caught.value.requested, caught.value.available) == ("cpu", "9", "8")


def test_memory_that_is_not_a_multiple_of_its_step_is_refused() -> None:
    device = pool(0, size=2**30)
    coarse = Device(
        id=device.id,
        name="mem0",
        kind="mem",
        model="",
        budget=2**30,
        costs={MEM: 1},
        quanta={MEM: 2**20},
        memory_bytes=0,
    )
    with pytest.raises(NotMultipleOfQuantum):
        DeviceMap.of((coarse,)).allocate({MEM: 2**20 + 1})
