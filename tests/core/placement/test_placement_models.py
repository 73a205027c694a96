"""Clusters of mixed device models, memory sizes and shapes: every request gets exactly matching devices."""

from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.allocation.options import AllocationOptions, is_of_model
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import AgentRow, PlacementConstraints, Snapshot
from aliquot.core.scheduler.decide import decide
from aliquot_schema.errors import InsufficientResource
from aliquot_schema.ids import DeviceId, NodeId, PoolId
from aliquot_schema.reasons import Reason
from aliquot_schema.resources.devices import Device
from allocation_devices import GB, SHARES, WHOLE, ask, gpu, gpus, slice_of
from core_cluster import NOW_US, on, places, row, snapshot, waits
from placement_clusters import NAMES

every_strategy = pytest.mark.parametrize("name", NAMES)
MODELS: Final = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "Tesla T4", "")
SIZES: Final = {"NVIDIA H100 80GB HBM3": 80 * GB, "NVIDIA A100-SXM4-40GB": 40 * GB, "Tesla T4": 16 * GB, "": 16 * GB}
PATTERNS: Final = (("*h100*",), ("tesla t4",), ("*A100*", "*T4"), ("nvidia*",), ("*",), ("v100",))


def pass_of(name: str, state: Snapshot) -> Plan:
    return decide(state, Policy(placement=name), now_us=NOW_US, seed=0)


@pytest.mark.parametrize(
    ("model", "patterns", "expected"),
    [
        ("NVIDIA H100", (), True),
        ("NVIDIA H100", ("nvidia h100",), True),
        ("NVIDIA H100", ("h100",), False),
        ("NVIDIA H100", ("*h100",), True),
        ("NVIDIA H100", ("a100", "*H1?0"), True),
        ("Odd [1]", ("odd [1]",), True),
        ("Odd 1", ("odd [1]",), True),
        ("", ("h100",), False),
        ("", ("*",), True),
    ],
)
def test_models_are_matched_by_name_or_pattern(model: str, patterns: tuple[str, ...], *, expected: bool) -> None:
    assert is_of_model(model, patterns) is expected


def test_an_allocation_keeps_to_the_models() -> None:
    devices = DeviceMap.of([gpu(0, model="T4"), gpu(1, model="H100"), gpu(2, model="H100"), gpu(3, model="T4")])
    options = AllocationOptions(models=("h100",))
    assert set(devices.allocate(ask(cuda_device="2"), options=options)[WHOLE]) == {"cuda1", "cuda2"}
    assert set(devices.allocate(ask(cuda_shares="0.5"), options=options)[SHARES]) == {"cuda2"}
    with pytest.raises(InsufficientResource, match="2 free"):
        devices.allocate(ask(cuda_device="3"), options=options)
    with pytest.raises(InsufficientResource, match="no device has a model named v100"):
        devices.allocate(ask(cuda_device="1"), options=AllocationOptions(models=("v100",)))
    assert devices.free(WHOLE, models=("h100",)).total == 2
    assert devices.free(WHOLE).total == 4


def test_a_refusal_says_how_models_and_memory_are_written() -> None:
    devices = DeviceMap.of([gpu(0, model="H100 80GB")])
    with pytest.raises(InsufficientResource, match=r"named H100; \* matches any letters, as in \*H100\*"):
        devices.allocate(ask(cuda_device="1"), options=AllocationOptions(models=("H100",)))
    with pytest.raises(InsufficientResource, match=r"named \*T4\*$"):
        devices.allocate(ask(cuda_device="1"), options=AllocationOptions(models=("*T4*",)))
    with pytest.raises(InsufficientResource, match=r"no device has 90\.5 GB of memory for 1"):
        devices.allocate(ask(cuda_device="1"), options=AllocationOptions(gpu_memory_bytes=90_500_000_000))


@every_strategy
def test_a_session_is_placed_on_an_agent_and_a_device_of_its_model(name: str) -> None:
    mixed = [gpu(0, model="T4"), gpu(1, model="H100")]
    agents = [on("old", gpus(2, model="T4")), on("mixed", mixed)]
    queue = [
        row("a", where=PlacementConstraints(models=("H100",)), cuda_shares="0.4"),
        row("b", at=1, where=PlacementConstraints(models=("h1*",))),
    ]
    plan = pass_of(name, snapshot(agents, queue))
    assert places(plan)["a"] == [("mixed", {"cuda.shares": {"cuda1": 400}})]
    verdict = waits(plan, "b")
    assert verdict.reason is Reason.INSUFFICIENT
    assert (verdict.evidence.requested, verdict.evidence.available) == ("1", "0")


@every_strategy
def test_a_gang_counts_devices_of_its_models_alone(name: str) -> None:
    most = [gpu(0, model="H100"), *(gpu(index, model="T4") for index in range(1, 5))]
    agents = [on("a", most), on("b", gpus(3, model="H100")), on("c", most)]
    plan = pass_of(name, snapshot(agents, [row("gang", kernels=3, where=PlacementConstraints(models=("h100",)))]))
    assert [agent for agent, _ in places(plan)["gang"]] == ["b", "b", "b"]


@every_strategy
def test_a_session_waits_for_a_closed_agent_when_only_that_agent_has_its_model(name: str) -> None:
    agents = [on("old", gpus(2, model="T4")), on("away", gpus(2, model="H100"), is_open=False)]
    plan = pass_of(name, snapshot(agents, [row("a", where=PlacementConstraints(models=("h100",)))]))
    verdict = waits(plan, "a")
    assert (verdict.reason, verdict.evidence.agents) == (Reason.NO_AGENT, ("away",))


@every_strategy
def test_sessions_are_placed_on_agents_with_their_pool_and_labels(name: str) -> None:
    fast = replace(on("fast", gpus(2)), labels={"link": "ib", "rack": "1"})
    other = replace(on("other", gpus(2)), pool=PoolId("lab"))
    queue = [
        row("a", where=PlacementConstraints(labels=(("link", "ib"),))),
        row("b", at=1, where=PlacementConstraints(pool=PoolId("lab"))),
        row("c", at=2, where=PlacementConstraints(labels=(("link", "ib"), ("rack", "2")))),
    ]
    plan = pass_of(name, snapshot([on("plain", gpus(2)), fast, other], queue))
    assert [agent for agent, _ in places(plan)["a"]] == ["fast"]
    assert [agent for agent, _ in places(plan)["b"]] == ["other"]
    assert waits(plan, "c").reason is Reason.NO_AGENT


@every_strategy
def test_whole_devices_shares_and_slices_are_placed_on_one_node(name: str) -> None:
    cut = gpu(3)
    devices = [*gpus(3), cut, slice_of(cut, 0), slice_of(cut, 1)]
    queue = [
        row("share", cuda_shares="0.3"),
        row("pair", at=1, cuda_device="2"),
        row("slice", at=2, cuda_device="1"),
        row("more", at=3, cuda_shares="0.7"),
        row("last", at=4, cuda_device="1", gpu_memory_bytes=20 * GB),
    ]
    used = {NodeId("node-x"): {DeviceId("cuda3/0"): 1000}}
    plan = pass_of(name, snapshot([on("x", devices)], queue, used=used))
    given = {name: spec for name, [(_, spec)] in places(plan).items()}
    assert set(given["pair"]["cuda.device"]) < {"cuda0", "cuda1", "cuda2"}
    assert set(given["slice"]["cuda.device"]) == {"cuda3/1"}
    assert given["share"]["cuda.shares"].keys() == given["more"]["cuda.shares"].keys()
    assert waits(plan, "last").reason in {Reason.INSUFFICIENT, Reason.FRAGMENTED}


@st.composite
def nodes(draw: st.DrawFn) -> list[AgentRow]:
    """Up to four agents; each GPU has its own model, and some are cut into slices."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        devices: list[Device] = []
        for index in range(draw(st.integers(1, 4))):
            model = draw(st.sampled_from(MODELS))
            whole = gpu(index, model=model, memory_bytes=SIZES[model])
            devices.append(whole)
            if draw(st.integers(0, 4)) == 0:
                part = SIZES[model] // 4
                devices += [
                    replace(slice_of(whole, index * 10 + cut, memory_bytes=part), model=model) for cut in range(2)
                ]
        found.append(on(f"a{number}", devices))
    return found


ASKED: Final[tuple[Mapping[str, str], ...]] = (
    {"cuda_device": "1"},
    {"cuda_device": "2"},
    {"cuda_shares": "0.3"},
    {"cuda_shares": "0.75"},
    {"cuda_shares": "1.2"},
)


@every_strategy
@settings(deadline=None, max_examples=60)
@given(agents=nodes(), data=st.data())
def test_no_session_gets_another_model_or_less_memory_than_requested(
    name: str, agents: list[AgentRow], data: st.DataObject
) -> None:
    queue = [
        row(
            f"s{number}",
            at=number,
            kernels=data.draw(st.sampled_from([1, 1, 2])),
            where=PlacementConstraints(models=data.draw(st.sampled_from([(), (), *PATTERNS]))),
            gpu_memory_bytes=data.draw(st.sampled_from([None, None, 10 * GB, 30 * GB])),
            **data.draw(st.sampled_from(ASKED)),
        )
        for number in range(data.draw(st.integers(1, 8)))
    ]
    plan = pass_of(name, snapshot(agents, queue))
    rows = {pending.session_id: pending for pending in queue}
    layouts = {agent.id: agent.layout for agent in agents}
    held: dict[tuple[NodeId, DeviceId], int] = {}
    for placement in plan.placements:
        pending = rows[placement.session_id]
        for kernel in placement.kernels:
            for slot, amounts in kernel.spec.items():
                for device_id, amount in amounts.items():
                    device = layouts[kernel.agent_id].devices[device_id]
                    budget = amount * device.costs[slot]
                    held[kernel.node_id, device_id] = held.get((kernel.node_id, device_id), 0) + budget
                    assert is_of_model(device.model, pending.where.models)
                    assert device.memory_bytes * budget >= (pending.gpu_memory_bytes or 0) * device.budget
                    assert held[kernel.node_id, device_id] <= device.budget
    for node_id, device_id in held:
        parents = [layout.devices[device_id].parent for layout in layouts.values() if device_id in layout.devices]
        assert all((node_id, parent) not in held for parent in parents if parent is not None)
