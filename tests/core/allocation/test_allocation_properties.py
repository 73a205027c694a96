"""Properties of every allocation."""

import random
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.core.allocation import AllocationOptions, DeviceMap, NumaPolicy, ShareStrategy
from aliquot.core.scheduler.feasibility import refusal_when_empty
from aliquot_schema.errors import AllocationRefused, NotMultipleOfQuantum
from aliquot_schema.ids import SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, ResourceSpec
from allocation_devices import CPU, GB, MEM, SHARES, WHOLE, cores, gpu, pool, slice_of

KNOWN_REFUSALS = (AllocationRefused, NotMultipleOfQuantum)


@st.composite
def agents(draw: st.DrawFn) -> tuple[Device, ...]:
    """Up to six GPUs, one perhaps cut into slices, four cores and a memory pool."""
    accelerators: list[Device] = []
    for index in range(draw(st.integers(1, 6))):
        linked = (f"cuda{index ^ 1}",) if draw(st.booleans()) else ()
        accelerators.append(
            gpu(
                index,
                budget=draw(st.sampled_from([500, 1000, 1000, 1000, 2000])),
                numa_node=draw(st.sampled_from([None, 0, 1])),
                memory_bytes=draw(st.sampled_from([24, 80])) * GB,
                health=draw(st.sampled_from([*[DeviceHealth.HEALTHY] * 4, DeviceHealth.UNHEALTHY])),
                linked_to=linked,
            )
        )
    if draw(st.booleans()):
        accelerators += [slice_of(accelerators[0], number) for number in range(2)]
    return (*accelerators, *cores(range(4), numa_node=0), pool(0, size=64, numa_node=0))


REQUESTS = st.one_of(
    st.builds(lambda amount: {SHARES: amount}, st.integers(1, 300).map(lambda steps: steps * 10)),
    st.builds(lambda amount: {WHOLE: amount}, st.integers(1, 5)),
    st.builds(
        lambda shares, cpu, mem: {SHARES: shares, CPU: cpu, MEM: mem},
        st.integers(0, 1500),
        st.integers(0, 5),
        st.integers(0, 70),
    ),
    st.builds(lambda whole, shares: {WHOLE: whole, SHARES: shares}, st.integers(0, 2), st.integers(0, 2)),
    st.just({SlotName("tpu.device"): 1}),
)
OPTIONS = st.builds(
    AllocationOptions,
    strategy=st.sampled_from(ShareStrategy),
    allow_fragmentation=st.booleans(),
    numa=st.sampled_from(NumaPolicy),
    gpu_memory_bytes=st.sampled_from([None, None, 10 * GB, 40 * GB]),
)
HISTORIES = st.lists(st.tuples(REQUESTS, OPTIONS, st.integers(0, 9)), max_size=12)


def _play(devices: tuple[Device, ...], history: list[Any]) -> tuple[DeviceMap, list[ResourceSpec]]:
    """Grant what fits; sometimes release an earlier grant."""
    state, held = DeviceMap.of(devices), []
    for request, options, chance in history:
        if chance < 3 and held:
            state = state.release(held.pop(chance % len(held)))
        try:
            spec = state.allocate(request, options=options)
        except KNOWN_REFUSALS:
            continue
        held.append(spec)
        state = state.apply(spec)
    return state, held


def _try(state: DeviceMap, request: Mapping[SlotName, int], options: AllocationOptions) -> ResourceSpec | str:
    try:
        return state.allocate(request, options=options)
    except KNOWN_REFUSALS as refusal:
        return refusal.message


@settings(deadline=None)
@given(agents(), HISTORIES)
def test_no_device_is_ever_held_above_its_budget(devices: tuple[Device, ...], history: list[Any]) -> None:
    state, _ = _play(devices, history)
    for device in devices:
        assert 0 <= state.used.get(device.id, 0) <= device.budget


@settings(deadline=None)
@given(agents(), HISTORIES)
def test_a_slice_and_its_parent_are_never_both_held(devices: tuple[Device, ...], history: list[Any]) -> None:
    state, _ = _play(devices, history)
    assert not any(device.parent and device.id in state.used and device.parent in state.used for device in devices)


@settings(deadline=None)
@given(agents(), HISTORIES, REQUESTS, OPTIONS)
def test_the_amounts_given_are_integers_that_add_up_exactly(
    devices: tuple[Device, ...], history: list[Any], request: dict[SlotName, int], options: AllocationOptions
) -> None:
    state, _ = _play(devices, history)
    spec = _try(state, request, options)
    if not isinstance(spec, str):
        assert {slot: sum(amounts.values()) for slot, amounts in spec.items()} == {
            s: n for s, n in request.items() if n
        }
        parts = [part for amounts in spec.values() for part in amounts.values()]
        assert all(type(part) is int and part > 0 for part in parts)


@settings(deadline=None)
@given(agents(), HISTORIES, REQUESTS, OPTIONS)
def test_an_allocation_passes_the_check_and_a_release_undoes_it(
    devices: tuple[Device, ...], history: list[Any], request: dict[SlotName, int], options: AllocationOptions
) -> None:
    state, _ = _play(devices, history)
    spec = _try(state, request, options)
    if not isinstance(spec, str):
        state.check(spec)
        assert state.apply(spec).release(spec) == state


@settings(deadline=None)
@given(agents(), HISTORIES)
def test_no_device_is_held_after_every_allocation_is_released(devices: tuple[Device, ...], history: list[Any]) -> None:
    state, held = _play(devices, history)
    for spec in held:
        state = state.release(spec)
    assert state.used == {}


@settings(deadline=None)
@given(agents(), HISTORIES, REQUESTS, OPTIONS)
def test_an_allocation_does_not_change_the_device_map(
    devices: tuple[Device, ...], history: list[Any], request: dict[SlotName, int], options: AllocationOptions
) -> None:
    state, held = _play(devices, history)
    before = dict(state.used)
    _try(state, request, options)
    assert dict(state.used) == before == dict(DeviceMap.of(devices, specs=held).used)


@settings(deadline=None)
@given(agents(), HISTORIES, REQUESTS, OPTIONS, st.randoms(use_true_random=False))
def test_an_allocation_does_not_depend_on_the_order_of_devices_or_mappings(
    devices: tuple[Device, ...],
    history: list[Any],
    request: dict[SlotName, int],
    options: AllocationOptions,
    order: random.Random,
) -> None:
    state, held = _play(devices, history)
    shuffled = list(devices)
    order.shuffle(shuffled)
    order.shuffle(held)
    again = DeviceMap.of(shuffled, specs=held)
    turned = dict(reversed(request.items()))
    assert _try(state, request, options) == _try(again, turned, options)


@settings(deadline=None)
@given(agents(), HISTORIES, REQUESTS, OPTIONS)
def test_a_request_that_an_empty_agent_refuses_is_always_refused(
    devices: tuple[Device, ...], history: list[Any], request: dict[SlotName, int], options: AllocationOptions
) -> None:
    state, _ = _play(devices, history)
    if refusal_when_empty(state.layout, tuple(request.items()), options) is not None:
        assert isinstance(_try(state, request, options), str)


@settings(deadline=None)
@given(agents(), HISTORIES, REQUESTS, OPTIONS)
def test_a_request_above_what_is_free_is_refused(
    devices: tuple[Device, ...], history: list[Any], request: dict[SlotName, int], options: AllocationOptions
) -> None:
    state, _ = _play(devices, history)
    if any(amount > state.free(slot).total for slot, amount in request.items()):
        assert isinstance(_try(state, request, options), str)
