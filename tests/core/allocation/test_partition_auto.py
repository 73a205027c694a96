"""Automatic division of a node among agents: tables of results, and properties."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.core.allocation.node_partition import (
    PARTITIONERS,
    PartitionRefused,
    Parts,
    auto_split,
    left_over,
    piece_of,
    scaling_factors,
)
from aliquot_schema.ids import AgentId, DeviceId, SlotName, natural_key
from aliquot_schema.resources.devices import Device
from allocation_devices import CPU, MEM, SHARES, WHOLE, cores, gpu, gpus, pool, slice_of

GIB = 1024**3
THREE = tuple(AgentId(f"agent-{number}") for number in (1, 2, 3))


def names(parts: Parts) -> list[list[str]]:
    return [[device.name for device in part] for part in parts.values()]


@pytest.mark.parametrize(
    ("devices", "agents", "expected"),
    [
        (gpus(5), 3, [["cuda0", "cuda1"], ["cuda2", "cuda3"], ["cuda4"]]),
        (gpus(2), 3, [["cuda0"], ["cuda1"], []]),
        ((), 3, [[], [], []]),
        (gpus(4), 1, [["cuda0", "cuda1", "cuda2", "cuda3"]]),
        (cores(range(4)), 3, [["cpu0", "cpu1"], ["cpu2"], ["cpu3"]]),
        ((gpu(10), gpu(1), gpu(0)), 3, [["cuda0"], ["cuda1"], ["cuda10"]]),
        ((gpu(0, name="nvme0n1p10"), gpu(1, name="nvme0n1p1")), 2, [["nvme0n1p1"], ["nvme0n1p10"]]),
        ((*gpus(2), *cores(range(3))), 2, [["cpu0", "cpu1", "cuda0"], ["cpu2", "cuda1"]]),
    ],
)
def test_each_agent_gets_consecutive_devices_in_natural_order(
    devices: tuple[Device, ...], agents: int, expected: list[list[str]]
) -> None:
    assert names(auto_split(devices, agents=THREE[:agents])) == expected


def test_memory_is_divided_to_the_byte() -> None:
    parts = auto_split([pool(0, size=100 * GIB)], agents=THREE)
    assert [(part[0].id, part[0].budget) for part in parts.values()] == [
        ("mem0/agent-1", 35_791_394_134),
        ("mem0/agent-2", 35_791_394_133),
        ("mem0/agent-3", 35_791_394_133),
    ]
    assert sum(part[0].budget for part in parts.values()) == 100 * GIB
    assert {part[0].parent for part in parts.values()} == {"mem0"}


def test_an_agent_for_which_no_byte_is_left_has_no_pool() -> None:
    assert names(auto_split([pool(0, size=2)], agents=THREE)) == [["mem0"], ["mem0"], []]


def test_a_device_and_its_slices_stay_together_and_slices_alone_do_not() -> None:
    first, second = gpus(2)
    sliced = [slice_of(first, 7), slice_of(first, 8)]
    assert names(auto_split([first, second, *sliced], agents=THREE)) == [["cuda0", "cuda0/7", "cuda0/8"], ["cuda1"], []]
    assert names(auto_split(sliced, agents=THREE)) == [["cuda0/7"], ["cuda0/8"], []]


def test_a_scaling_factor_is_the_part_of_the_node_that_the_agent_has() -> None:
    node = (*gpus(5), *cores(range(3)), pool(0, size=100 * GIB))
    first, *_, third = auto_split(node, agents=THREE).values()
    assert scaling_factors(first, node=node, slots=[SlotName("rocm.device")]) == {
        CPU: "0.333333",
        MEM: "0.333333",
        WHOLE: "0.4",
        SHARES: "0.4",
        "rocm.device": "0",
    }
    assert scaling_factors(third, node=node, slots=[])[WHOLE] == "0.2"
    assert scaling_factors(node, node=node, slots=[])[WHOLE] == "1"
    assert scaling_factors([pool(0, size=1)], node=[pool(0, size=10**12)], slots=[])[MEM] == "0.000000000001"


def test_an_agent_without_devices_has_scaling_factor_zero() -> None:
    *_, third = auto_split(gpus(2), agents=THREE).values()
    assert scaling_factors(third, node=gpus(2), slots=[]) == {WHOLE: "0", SHARES: "0"}
    assert scaling_factors((), node=(), slots=[WHOLE]) == {WHOLE: "0"}


def test_devices_and_memory_of_no_agent_are_named() -> None:
    node = (*gpus(3), pool(0, size=8 * GIB), pool(1, size=GIB))
    parts: Parts = {THREE[0]: (gpus(3)[1], piece_of(node[3], owner=THREE[0], budget=2 * GIB))}
    assert left_over(node, parts=parts) == ["cuda0", "cuda2", "6g of mem0", "mem1"]
    assert left_over(node, parts=auto_split(node, agents=THREE)) == []


@pytest.mark.parametrize(
    ("given_parts", "words"),
    [
        ([()], "made 1 parts for 2 agents"),
        ([(gpu(0),), (gpu(0),)], "returned cuda0 twice"),
        ([(gpu(7),), ()], "returned cuda7, which is no device of the node"),
        ([(gpu(0, memory_bytes=1),), ()], "returned cuda0, which is no device of the node"),
        ([(gpu(0), piece_of(gpu(0), owner=AgentId("a"), budget=500)), ()], "returned cuda0 twice"),
        ([(piece_of(gpu(0), owner=AgentId("a"), budget=400),) * 2, ()], "returned cuda0 twice"),
    ],
)
def test_the_result_of_an_external_partitioner_is_checked(given_parts: list[tuple[Device, ...]], words: str) -> None:
    with pytest.raises(PartitionRefused, match=words):
        auto_split(gpus(2), agents=THREE[:2], partitioners={"cuda": lambda devices, *, agents: given_parts})


def test_an_external_partitioner_divides_only_its_own_kind_of_device() -> None:
    dealt = {"cuda": lambda devices, *, agents: [devices[index :: len(agents)] for index in range(len(agents))]}
    parts = auto_split((*gpus(4), *cores(range(4))), agents=THREE[:2], partitioners={**PARTITIONERS, **dealt})
    assert names(parts) == [["cpu0", "cpu1", "cuda0", "cuda2"], ["cpu2", "cpu3", "cuda1", "cuda3"]]


@given(
    gpus_there=st.integers(0, 20),
    cpus=st.integers(0, 70),
    memory=st.integers(1, 2**45),
    agents=st.integers(1, 9),
    dice=st.randoms(use_true_random=False),
)
def test_each_device_is_given_once_and_agents_differ_by_at_most_one_device(
    gpus_there: int, cpus: int, memory: int, agents: int, dice: random.Random
) -> None:
    node = [*gpus(gpus_there), *cores(range(cpus)), pool(0, size=memory)]
    dice.shuffle(node)
    parts = auto_split(node, agents=[AgentId(f"a{number}") for number in range(agents)])
    whole = [device.id for part in parts.values() for device in part if device.kind != "mem"]
    assert sorted(whole, key=natural_key) == sorted(
        [device.id for device in node if device.kind != "mem"], key=natural_key
    )
    for kind in ("cuda", "cpu"):
        counts = [sum(device.kind == kind for device in part) for part in parts.values()]
        assert counts == sorted(counts, reverse=True)
        assert max(counts) - min(counts) <= 1
    assert sum(device.budget for part in parts.values() for device in part if device.kind == "mem") == memory
    assert left_over(node, parts=parts) == []
    assert DeviceId("mem0") not in {device.id for part in parts.values() for device in part}
