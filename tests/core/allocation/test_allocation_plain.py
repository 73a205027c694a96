"""The allocation's fast path gives the result of the general one."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.allocation import AllocationOptions, DeviceMap, NumaPolicy, ShareStrategy, accelerators
from aliquot.core.allocation.device_map import allocate
from aliquot_schema.errors import AllocationRefused, InvalidRequest
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, ResourceSpec
from allocation_devices import CPU, MEM, SHARES, WHOLE, ask, cores, gpu, pool, slice_of
from core_speed_reference import without_shortcuts

Request = dict[SlotName, int]
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        CPU: st.integers(0, 9),
        MEM: st.integers(0, 40),
    },
).flatmap(
    lambda hosted: st.one_of(
        st.just(hosted),
        st.integers(1, 4).map(lambda count: {WHOLE: count} | hosted),
        st.integers(1, 130).map(lambda steps: {SHARES: steps * 10} | hosted),
    )
)
OPTIONS = st.builds(
    AllocationOptions,
    strategy=st.sampled_from([ShareStrategy.EVENLY, ShareStrategy.EVENLY, ShareStrategy.FILL]),
    numa=st.sampled_from([NumaPolicy.PREFER, NumaPolicy.PREFER, NumaPolicy.INTERLEAVE]),
    models=st.sampled_from([(), (), ("H100",), ("A100",)]),
)


@st.composite
def agents(draw: st.DrawFn) -> list[Device]:
    """GPUs, cores and memory of up to two NUMA nodes; sometimes of odd sizes or steps."""
    nodes = draw(st.sampled_from([(None,), (0,), (0, 1), (None, 1)]))
    budget = st.sampled_from([1000] * 9 + [2000])
    quantum = draw(st.sampled_from([10, 10, 10, 25]))
    found: list[Device] = [
        gpu(index, numa_node=draw(st.sampled_from(nodes)), budget=draw(budget), quantum=quantum)
        for index in range(draw(st.integers(0, 4)))
    ]
    if found and draw(st.integers(0, 5)) == 0:
        found.append(slice_of(found[0], 7))
    for place, numa_node in enumerate(nodes):
        found += cores(range(place * 5, place * 5 + 5), numa_node=numa_node)
        found.append(pool(place, size=30, numa_node=numa_node))
    return found if draw(st.booleans()) else [device for device in found if device.name != "mem1"]


def answer(devices: DeviceMap, request: Request, options: AllocationOptions, preferred: DeviceId | None) -> Any:
    try:
        return allocate(request, slots=devices.layout.slots, used=devices.used, options=options, preferred=preferred)
    except (AllocationRefused, InvalidRequest) as refusal:
        return type(refusal), refusal.message


def ordered(spec: ResourceSpec) -> list[tuple[SlotName, list[tuple[DeviceId, int]]]]:
    return [(slot, list(amounts.items())) for slot, amounts in spec.items()]


@settings(deadline=None, max_examples=150)
@given(devices=agents(), history=st.lists(st.tuples(REQUESTS, OPTIONS, st.integers(0, 4)), min_size=1, max_size=8))
def test_the_fast_allocation_gives_the_same_result_as_the_general_one(
    devices: list[Device], history: list[Any]
) -> None:
    state = DeviceMap.of(devices)
    for request, options, number in history:
        prefers = number < 3 and SHARES in request and WHOLE not in request
        preferred = DeviceId(f"cuda{number}") if prefers else None
        found = answer(state, request, options, preferred)
        with without_shortcuts():
            reference = answer(state, request, options, preferred)
        assert found == reference
        if isinstance(found, dict):
            assert ordered(found) == ordered(reference)
            state = state.apply(found)


def test_a_share_goes_on_the_preferred_device_or_is_refused() -> None:
    layout = DeviceMap.of([gpu(0), gpu(1)]).layout
    used = {DeviceId("cuda0"): 500}
    first, second = DeviceId("cuda0"), DeviceId("cuda1")
    request = ask(cuda_shares="0.6")
    assert allocate(request, slots=layout.slots, used=used, preferred=second) == {SHARES: {second: 600}}
    with pytest.raises(AllocationRefused):
        allocate(request, slots=layout.slots, used=used, preferred=first)


def test_the_fast_allocation_answers_plain_requests() -> None:
    """The property above also holds without a fast path."""
    numa = [gpu(index, numa_node=index // 2) for index in range(4)]
    slots = DeviceMap.of([*numa, *cores(range(4), numa_node=0), *cores(range(4, 8), numa_node=1), pool(0, size=9)])
    layout, options = slots.layout.slots, AllocationOptions()
    wholes = accelerators.fast_accelerators(
        layout[WHOLE], amount=2, used={}, options=options, is_share=False, preferred=None
    )
    assert wholes == {"cuda2": 1, "cuda3": 1}
    near = frozenset({1})
    prefer = NumaPolicy.PREFER
    assert accelerators.fast_host(layout[CPU], amount=5, used={}, near=near, numa=prefer) == dict.fromkeys(
        ("cpu0", "cpu4", "cpu5", "cpu6", "cpu7"), 1
    )
    assert accelerators.fast_host(layout[MEM], amount=9, used={}, near=near, numa=prefer) == {"mem0": 9}
    assert accelerators.fast_host(layout[MEM], amount=10, used={}, near=near, numa=prefer) is None
