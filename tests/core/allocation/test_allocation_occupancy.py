"""Sums of resource specs: occupancy, checks of a given spec, and the displayed device map."""

import json

import pytest

from aliquot.core.allocation import DeviceMap, budget_cost, gpu_alloc_json, gpu_alloc_map, occupancy_of
from aliquot_schema.errors import InsufficientResource, NotMultipleOfQuantum, UnsupportedResource
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, ResourceSpec
from allocation_devices import CPU, SHARES, WHOLE, ask, cores, gpu, gpus, slice_of

FIRST, SECOND = DeviceId("cuda0"), DeviceId("cuda1")
ONLY_WHOLE = gpu(0, costs={WHOLE: 1000})
ONLY_SHARES = gpu(0, costs={SHARES: 1})


@pytest.mark.parametrize(
    ("slot", "device", "cost"),
    [
        ("cuda.device", gpu(0), 1000),
        ("cuda.shares", gpu(0), 1),
        ("cuda.shares", ONLY_WHOLE, 1),
        ("cuda.device", ONLY_SHARES, 1000),
        ("gpu.shares", gpu(0), 1),
        ("cuda.device", None, 1000),
        ("cuda.shares", None, 1),
        ("tpu.device", gpu(0, costs={SlotName("tpu.device"): 250}), 250),
        ("cpu", None, 1),
        ("mem", gpu(0), 1),
    ],
)
def test_each_slot_unit_costs_its_part_of_the_device_budget(slot: str, device: Device | None, cost: int) -> None:
    assert budget_cost(SlotName(slot), device=device) == cost


def test_occupancy_is_the_sum_over_slots_and_specs() -> None:
    specs = [{SHARES: {FIRST: 250}}, {WHOLE: {SECOND: 1}, CPU: {DeviceId("cpu0"): 1}}, {SHARES: {FIRST: 250}}]
    assert occupancy_of(specs, gpus(2)) == {"cuda0": 500, "cuda1": 1000, "cpu0": 1}


@pytest.mark.parametrize(
    ("before", "held", "after", "free"),
    [
        (ONLY_SHARES, {SHARES: {FIRST: 300}}, ONLY_WHOLE, (WHOLE, 0)),
        (ONLY_WHOLE, {WHOLE: {FIRST: 1}}, ONLY_SHARES, (SHARES, 0)),
        (gpu(0), {SHARES: {FIRST: 300}}, gpu(0, costs={SlotName("gpu.shares"): 1}), (SlotName("gpu.shares"), 700)),
        (gpu(0), {WHOLE: {FIRST: 1}}, gpu(0, budget=500), (SHARES, 0)),
    ],
    ids=["shares become whole", "whole becomes shares", "another kind", "a smaller device"],
)
def test_a_device_stays_held_after_its_slot_is_renamed(
    before: Device, held: ResourceSpec, after: Device, free: tuple[SlotName, int]
) -> None:
    slot, amount = free
    DeviceMap.of((before,)).check(held)
    state = DeviceMap.of((after,), specs=[held])
    assert state.free(slot).total == amount
    assert state.release(held).used == {}
    assert state.release(held).free(slot).total == after.capacity(slot)


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({WHOLE: {FIRST: 1}}, InsufficientResource),
        ({SHARES: {FIRST: 510}}, InsufficientResource),
        ({SHARES: {SECOND: 600}, WHOLE: {SECOND: 1}}, InsufficientResource),
        ({SHARES: {SECOND: 5}}, NotMultipleOfQuantum),
        ({WHOLE: {DeviceId("cuda2"): 1}}, UnsupportedResource),
        ({WHOLE: {DeviceId("cuda9"): 1}}, UnsupportedResource),
        ({SlotName("rocm.device"): {SECOND: 1}}, UnsupportedResource),
        ({WHOLE: {DeviceId("cuda3"): 1, DeviceId("cuda3/0"): 1}}, InsufficientResource),
    ],
)
def test_a_spec_that_no_longer_fits_is_refused(spec: ResourceSpec, refusal: type[Exception]) -> None:
    devices = (*gpus(2), gpu(2, health=DeviceHealth.UNHEALTHY), gpu(3), slice_of(gpu(3), 0))
    state = DeviceMap.of(devices, specs=[{SHARES: {FIRST: 500}}])
    with pytest.raises(refusal):
        state.check(spec)


def test_a_spec_that_fits_passes_the_check() -> None:
    DeviceMap.of(gpus(2), specs=[{SHARES: {FIRST: 500}}]).check({SHARES: {FIRST: 500, SECOND: 1000}})


def test_releasing_a_device_that_is_not_held_raises_an_error() -> None:
    with pytest.raises(AssertionError):
        DeviceMap.of(gpus(1)).release({SHARES: {FIRST: 10}})


def test_free_amounts_are_given_in_total_and_in_the_largest_piece() -> None:
    state = DeviceMap.of(gpus(3), specs=[{SHARES: {FIRST: 300, SECOND: 990}}])
    assert (state.free(SHARES).total, state.free(SHARES).largest) == (1710, 1000)
    assert (state.free(WHOLE).total, state.free(WHOLE).largest) == (1, 1)
    assert (state.free(CPU).total, state.free(CPU).largest) == (0, 0)


def test_a_device_and_its_slices_count_once_in_the_free_amount() -> None:
    state = DeviceMap.of((gpu(0), slice_of(gpu(0), 0), slice_of(gpu(0), 1)))
    assert state.free(WHOLE).total == 2
    assert state.apply({SHARES: {FIRST: 10}}).free(WHOLE).total == 0
    assert state.apply({SHARES: {DeviceId("cuda0/0"): 10}}).free(SHARES).total == 1990


def test_the_map_has_every_accelerator_in_natural_order() -> None:
    devices = (*gpus(11), *cores(range(2)))
    state = DeviceMap.of(devices)
    spec = state.allocate(ask(cuda_device="1", cpu="2"))
    shown = json.loads(gpu_alloc_json(gpu_alloc_map([spec, {SHARES: {FIRST: 125}}], devices)))
    assert list(shown) == [f"cuda{index}" for index in range(11)]
    assert shown == dict.fromkeys(shown, "0.00") | {"cuda0": "0.125", "cuda10": "1.00"}


def test_a_held_device_that_is_no_longer_listed_stays_in_the_map() -> None:
    assert gpu_alloc_map([{WHOLE: {SECOND: 1}, CPU: {DeviceId("cpu0"): 1}}], gpus(1)) == {"cuda0": 0, "cuda1": 1000}
