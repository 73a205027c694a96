"""Division of a node by name, and devices kept from Aliquot."""

from typing import Any

import pytest

from aliquot.core.allocation.node_partition import DeviceClaim, DeviceSelection, PartitionRefused, claimed, left_over
from aliquot_schema.ids import AgentId, DeviceId
from allocation_devices import cores, gpu, gpus, pool, slice_of

NODE = (*gpus(3), *cores(range(4)), pool(0, size=1000))


def claim(name: str, *, mem: int = 0, **devices: list[str]) -> DeviceClaim:
    return DeviceClaim(agent_id=AgentId(name), devices=devices, memory_bytes=mem)


def test_each_agent_gets_the_devices_claimed_by_name_number_or_id() -> None:
    node = (*NODE, gpu(3, id=DeviceId("GPU-7f")))
    parts = claimed(
        node,
        claims=[
            claim("a", cuda=["cuda0", "2"], cpu=["0", "cpu3"], mem=300),
            claim("b", cuda=["GPU-7f"]),
            claim("c", mem=600),
        ],
    )
    assert [[(device.id, device.budget) for device in part] for part in parts.values()] == [
        [("cuda0", 1000), ("cuda2", 1000), ("cpu0", 1), ("cpu3", 1), ("mem0/a", 300)],
        [("GPU-7f", 1000)],
        [("mem0/c", 600)],
    ]
    assert left_over(node, parts=parts) == ["cpu1", "cpu2", "cuda1", "100 of mem0"]


def test_memory_comes_from_one_pool_after_the_other() -> None:
    pools = (pool(0, size=100), pool(1, size=100))
    parts = claimed(pools, claims=[claim("a", mem=120), claim("b", mem=80)])
    assert [[(piece.id, piece.budget) for piece in part] for part in parts.values()] == [
        [("mem0/a", 100), ("mem1/a", 20)],
        [("mem1/b", 80)],
    ]


def test_a_claim_of_a_sliced_device_includes_its_slices_even_if_only_they_are_offered() -> None:
    whole = gpu(0)
    slices = (slice_of(whole, 7), slice_of(whole, 8))
    for node in ((whole, *slices), slices):
        (part,) = claimed(node, claims=[claim("a", cuda=["cuda0"])]).values()
        assert part == node


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([claim("a", cuda=["cuda3"])], "agent a: there is no cuda device 'cuda3'; there are cuda0, cuda1, cuda2"),
        ([claim("a", cpu=["9"])], "agent a: there is no cpu device '9'; there are cpu0, cpu1, cpu2, cpu3"),
        ([claim("a", npu=["npu0"])], "agent a: there are no devices named 'npu' here; there are cuda"),
        ([claim("a", mem_=["mem0"])], "agent a: there are no devices named 'mem_' here; there are cuda"),
        (
            [claim("a", cuda=["cuda1"]), claim("b", cuda=["1"])],
            "device cuda1 is given to two agents, a and b; it can belong to one of them",
        ),
        ([claim("a", cuda=["cuda1", "1"])], "agent a: device cuda1 appears twice"),
        ([claim("a", mem=600), claim("b", mem=401)], "adds up to 1001, but this node has 1000"),
    ],
)
def test_an_invalid_claim_is_refused_with_the_valid_choices(claims: list[DeviceClaim], words: str) -> None:
    with pytest.raises(PartitionRefused) as refusal:
        claimed(NODE, claims=claims)
    assert words in str(refusal.value)


def test_a_memory_pool_claimed_as_a_device_is_refused_with_the_right_syntax() -> None:
    with pytest.raises(PartitionRefused, match='mem = "32G"'):
        claimed(NODE, claims=[DeviceClaim(agent_id=AgentId("a"), devices={"mem": ["mem0"]})])


def test_a_slice_and_its_parent_device_cannot_go_to_two_agents() -> None:
    whole = gpu(0)
    node = (whole, slice_of(whole, 7))
    with pytest.raises(PartitionRefused, match="cuda0/7 is given to two agents, a and b"):
        claimed(node, claims=[claim("a", cuda=["cuda0"]), claim("b", cuda=["cuda0/7"])])


def test_a_long_list_of_valid_names_is_cut() -> None:
    with pytest.raises(PartitionRefused, match=r"cpu31 and 32 more$"):
        claimed(cores(range(64)), claims=[claim("a", cpu=["64"])])


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, "cuda0 cuda1 cuda2 cpu0 cpu1 mem0"),
        ({"include": {"cuda1"}}, "cuda1 cpu0 cpu1 mem0"),
        ({"exclude": {"cuda1", "cpu0"}}, "cuda0 cuda2 cpu1 mem0"),
        ({"include": {"cuda1", "cuda2"}, "exclude": {"cuda2"}}, "cuda1 cpu0 cpu1 mem0"),
    ],
)
def test_devices_are_included_and_excluded_by_name(selection: Any, expected: str) -> None:
    node = (*gpus(3), *cores(range(2)), pool(0, size=1))
    chosen = DeviceSelection(**{name: frozenset(texts) for name, texts in selection.items()})
    chosen.check(node)
    assert " ".join(device.name for device in chosen.of(node)) == expected


def test_slices_are_included_and_excluded_with_their_parent_device() -> None:
    whole = gpu(0)
    slices = (slice_of(whole, 7), slice_of(whole, 8))
    node = (whole, gpu(1), *slices)
    assert DeviceSelection(exclude=frozenset({"cuda0"})).of(node) == (gpu(1),)
    assert DeviceSelection(include=frozenset({"cuda0"})).of(slices) == slices
    assert DeviceSelection(include=frozenset({"cuda0/8"})).of(node) == (slices[1],)


def test_a_selection_of_an_unknown_device_is_refused() -> None:
    with pytest.raises(PartitionRefused, match=r"devices.exclude: there is no device cuda9; there are cuda0, cuda1"):
        DeviceSelection(exclude=frozenset({"cuda9", "cuda0"})).check(gpus(2))
