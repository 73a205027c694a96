"""Accelerators: allocated devices and amounts, and refusals."""

from typing import Any

import pytest

from aliquot.core.allocation import AllocationOptions, DeviceMap, ShareStrategy, gpu_alloc_json, gpu_alloc_map
from aliquot.core.allocation.options import DEFAULT_OPTIONS
from aliquot.core.scheduler.feasibility import refusal_when_empty
from aliquot_schema.errors import (
    AllocationRefused,
    FractionalResourceFragmented,
    InsufficientResource,
    InvalidAmount,
    InvalidResourceCombination,
    NotMultipleOfQuantum,
    UnsupportedResource,
)
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth
from aliquot_schema.resources.slots import UNLIMITED, SlotType
from allocation_devices import GB, SHARES, WHOLE, amounts_of, ask, give, gpu, gpus, slice_of

FILL = AllocationOptions(strategy=ShareStrategy.FILL)
SPLIT = AllocationOptions(allow_fragmentation=True)


@pytest.mark.parametrize("strategy", list(ShareStrategy))
@pytest.mark.parametrize("allow_fragmentation", [False, True])
def test_a_share_of_1_2_is_split_evenly_beside_an_earlier_share_of_0_2(
    strategy: ShareStrategy, allow_fragmentation: bool
) -> None:
    """Exact amounts hold for `evenly`, the default; for `fill` only the total."""
    options = AllocationOptions(strategy=strategy, allow_fragmentation=allow_fragmentation)
    names = ("c59395cd-ac91-4cd3-a1b0-3d2568aa2d01", "c59395cd-ac91-4cd3-a1b0-3d2568aa2d02")
    devices = tuple(
        gpu(index, id=DeviceId(name), numa_node=index, memory_bytes=2 * 1024**3) for index, name in enumerate(names)
    )
    first, state = give(DeviceMap.of(devices), options=options, cuda_shares="0.2")
    second, state = give(state, options=options, cuda_shares="1.2")
    assert sum(state.used.values()) == 1400
    if strategy is ShareStrategy.EVENLY:
        assert first == {SHARES: {names[1]: 200}}
        assert second == {SHARES: {names[0]: 600, names[1]: 600}}
        shown = gpu_alloc_json(gpu_alloc_map([first, second], devices))
        assert shown == f'{{"{names[0]}": "0.60", "{names[1]}": "0.80"}}'


CASES: list[tuple[str, dict[int, int], dict[str, str], AllocationOptions, Any]] = [
    ("tightest", {0: 300, 1: 500, 2: 900}, {"cuda_shares": "0.5"}, AllocationOptions(), {"cuda1": 500}),
    ("ties to the last", {}, {"cuda_shares": "0.25"}, AllocationOptions(), {"cuda2": 250}),
    ("ties among tight ones", {0: 500, 1: 500, 2: 800}, {"cuda_shares": "0.25"}, AllocationOptions(), {"cuda1": 250}),
    ("two halves, not five fifths", {}, {"cuda_shares": "1.15"}, AllocationOptions(), {"cuda1": 570, "cuda2": 580}),
    ("all of it", {}, {"cuda_shares": "3"}, AllocationOptions(), {"cuda0": 1000, "cuda1": 1000, "cuda2": 1000}),
    ("equal needs a third", {0: 600, 1: 600, 2: 600}, {"cuda_shares": "1.2"}, AllocationOptions(), [400, 400, 400]),
    ("unequal if allowed", {0: 700, 1: 500, 2: 950}, {"cuda_shares": "0.7"}, SPLIT, {"cuda0": 300, "cuda1": 400}),
    ("fill from the most room", {0: 100, 1: 50}, {"cuda_shares": "0.5"}, FILL, {"cuda2": 500}),
    ("fill ties to the first", {}, {"cuda_shares": "0.5"}, FILL, {"cuda0": 500}),
    ("fill uses up", {0: 100}, {"cuda_shares": "1.2"}, FILL, {"cuda1": 1000, "cuda2": 200}),
    ("whole ones are idle", {0: 10, 1: 1000}, {"cuda_device": "1"}, AllocationOptions(), {"cuda2": 1}),
    ("whole ones, fill", {0: 10}, {"cuda_device": "2"}, FILL, {"cuda1": 1, "cuda2": 1}),
    ("too fine", {}, {"cuda_shares": "0.005"}, AllocationOptions(), NotMultipleOfQuantum),
    ("off the step", {}, {"cuda_shares": "0.123"}, SPLIT, NotMultipleOfQuantum),
    ("more than there is", {}, {"cuda_shares": "3.01"}, AllocationOptions(), InsufficientResource),
    ("more than is left", {0: 1000, 1: 900}, {"cuda_shares": "1.2"}, SPLIT, InsufficientResource),
    (
        "in sum only",
        {0: 500, 1: 500, 2: 500},
        {"cuda_shares": "0.6"},
        AllocationOptions(),
        FractionalResourceFragmented,
    ),
    ("in sum only, fill", {0: 500, 1: 500, 2: 500}, {"cuda_shares": "0.6"}, FILL, FractionalResourceFragmented),
    ("no equal parts", {0: 900, 1: 900}, {"cuda_shares": "1.2"}, AllocationOptions(), FractionalResourceFragmented),
    ("shares block whole", {0: 10, 1: 10}, {"cuda_device": "2"}, AllocationOptions(), InsufficientResource),
    ("both slots", {}, {"cuda_device": "1", "cuda_shares": "0.5"}, AllocationOptions(), InvalidResourceCombination),
    ("no such slot", {}, {"rocm_device": "1"}, AllocationOptions(), UnsupportedResource),
]


@pytest.mark.parametrize(
    ("held", "request_", "options", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_allocations_on_three_partly_held_gpus(
    held: dict[int, int], request_: dict[str, str], options: AllocationOptions, expected: Any
) -> None:
    state = DeviceMap.of(gpus(3)).apply({SHARES: {DeviceId(f"cuda{index}"): part for index, part in held.items()}})
    if isinstance(expected, type):
        with pytest.raises(expected):
            state.allocate(ask(**request_), options=options)
        return
    spec = state.allocate(ask(**request_), options=options)
    (given,) = spec.values()
    assert (list(given.values()) if isinstance(expected, list) else given) == expected


def test_a_request_for_zero_of_an_unknown_slot_is_accepted() -> None:
    assert DeviceMap.of(gpus(1)).allocate({SlotName("tpu.device"): 0}) == {}


def test_a_request_for_an_unlimited_amount_is_invalid() -> None:
    with pytest.raises(InvalidAmount):
        DeviceMap.of(gpus(1)).allocate({WHOLE: UNLIMITED})


def test_a_refusal_names_the_slot_the_amounts_and_the_option_that_helps() -> None:
    state = DeviceMap.of(gpus(2)).apply({SHARES: {DeviceId("cuda0"): 500, DeviceId("cuda1"): 500}})
    with pytest.raises(FractionalResourceFragmented) as caught:
        state.allocate(ask(cuda_shares="0.6"))
    assert (caught.value.slot, caught.value.requested, caught.value.available) == ("cuda.shares", "0.60", "0.50")
    assert "allow_fragmentation" in caught.value.message


def test_time_sliced_units_share_a_device() -> None:
    state = DeviceMap.of(gpus(2, budget=4000))
    spec, state = give(state, cuda_device="3")
    assert spec == {WHOLE: {"cuda1": 3}}
    spec, state = give(state, cuda_device="1")
    assert spec == {WHOLE: {"cuda1": 1}}
    spec, state = give(state, cuda_shares="0.5")
    assert spec == {SHARES: {"cuda0": 500}}
    assert state.free(WHOLE).total == 3
    with pytest.raises(InsufficientResource):
        state.allocate(ask(cuda_device="4"))


@pytest.mark.parametrize("health", [DeviceHealth.UNHEALTHY, DeviceHealth.GONE])
def test_a_broken_device_is_not_given(health: DeviceHealth) -> None:
    state = DeviceMap.of((gpu(0, health=health), gpu(1)))
    assert state.allocate(ask(cuda_device="1")) == {WHOLE: {"cuda1": 1}}
    with pytest.raises(InsufficientResource):
        state.allocate(ask(cuda_device="2"))


def test_a_slot_with_only_broken_devices_is_refused_as_insufficient() -> None:
    state = DeviceMap.of((gpu(0, health=DeviceHealth.UNHEALTHY),))
    with pytest.raises(InsufficientResource):
        state.allocate(ask(cuda_device="1"))


@pytest.mark.parametrize(
    ("health", "refusal"), [(DeviceHealth.UNHEALTHY, type(None)), (DeviceHealth.GONE, InsufficientResource)]
)
def test_a_request_may_wait_for_a_broken_device_but_not_for_a_device_that_is_gone(
    health: DeviceHealth, refusal: type
) -> None:
    state = DeviceMap.of((gpu(0, health=health), gpu(1))).apply({WHOLE: {DeviceId("cuda1"): 1}})
    assert isinstance(refusal_when_empty(state.layout, tuple(ask(cuda_device="2").items()), DEFAULT_OPTIONS), refusal)


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        ({"cuda_device": "8"}, type(None)),
        ({"cuda_device": "9"}, InsufficientResource),
        ({"cuda_shares": "7.99"}, type(None)),
        ({"cuda_shares": "0.005"}, NotMultipleOfQuantum),
        ({"rocm_device": "1"}, UnsupportedResource),
        ({"cuda_device": "1", "cuda_shares": "1"}, InvalidResourceCombination),
    ],
)
def test_a_full_agent_says_which_requests_it_would_refuse_when_empty(request_: dict[str, str], refusal: type) -> None:
    full = DeviceMap.of(gpus(8))
    full = full.apply(full.allocate(ask(cuda_device="8")))
    assert isinstance(refusal_when_empty(full.layout, tuple(ask(**request_).items()), DEFAULT_OPTIONS), refusal)


MIXED_CARDS = (gpu(0, memory_bytes=80 * GB), gpu(1, memory_bytes=24 * GB), gpu(2, memory_bytes=0))


@pytest.mark.parametrize(
    ("request_", "gigabytes", "expected"),
    [
        ({"cuda_device": "1"}, 40, {"cuda0": 1}),
        ({"cuda_device": "2"}, 24, {"cuda0": 1, "cuda1": 1}),
        ({"cuda_shares": "0.5"}, 12, {"cuda1": 500}),
        ({"cuda_shares": "0.5"}, 13, {"cuda0": 500}),
        ({"cuda_shares": "1.2"}, 14, {"cuda0": 600, "cuda1": 600}),
        ({"cuda_shares": "0.5"}, 41, InsufficientResource),
        ({"cuda_device": "2"}, 25, InsufficientResource),
        ({"cuda_device": "1"}, 81, InsufficientResource),
        ({"cuda_shares": "1.2"}, 15, FractionalResourceFragmented),
    ],
)
@pytest.mark.parametrize("strategy", list(ShareStrategy))
def test_each_allocated_device_has_the_requested_gpu_memory(
    request_: dict[str, str], gigabytes: int, expected: Any, strategy: ShareStrategy
) -> None:
    options = AllocationOptions(gpu_memory_bytes=gigabytes * GB, strategy=strategy)
    state = DeviceMap.of(MIXED_CARDS)
    if isinstance(expected, type):
        with pytest.raises(expected):
            state.allocate(ask(**request_), options=options)
        return
    (given,) = state.allocate(ask(**request_), options=options).values()
    needed = {ShareStrategy.EVENLY: expected, ShareStrategy.FILL: given}[strategy]
    assert given == needed
    assert sum(given.values()) == sum(ask(**request_).values())
    for device in MIXED_CARDS:
        part = given.get(device.id, 0)
        whole = "cuda_device" in request_
        assert part == 0 or (device.memory_bytes if whole else device.memory_bytes * part // 1000) >= gigabytes * GB


def _cut() -> tuple[Device, ...]:
    parent = gpu(0)
    return (parent, slice_of(parent, 0), slice_of(parent, 1), gpu(1))


def test_a_device_with_a_held_slice_is_not_allocated() -> None:
    state = DeviceMap.of(_cut()).apply({SHARES: {DeviceId("cuda0/1"): 10}})
    assert state.allocate(ask(cuda_device="1")) == {WHOLE: {"cuda1": 1}}
    assert state.free(WHOLE).total == 2
    state = state.apply({WHOLE: {DeviceId("cuda1"): 1}})
    assert state.allocate(ask(cuda_device="1")) == {WHOLE: {"cuda0/0": 1}}


def test_slices_of_a_held_device_are_not_allocated() -> None:
    state = DeviceMap.of(_cut()).apply({SHARES: {DeviceId("cuda0"): 10}})
    assert state.free(WHOLE).total == 1
    assert amounts_of(state.allocate(ask(cuda_shares="0.5")), SHARES) == {"cuda0": 500}
    with pytest.raises(InsufficientResource):
        state.apply({WHOLE: {DeviceId("cuda1"): 1}}).allocate(ask(cuda_device="1"))


def test_slices_of_a_device_held_through_another_agent_are_not_allocated() -> None:
    """On a shared node the parent may belong to another agent only."""
    state = DeviceMap.of(_cut()[1:3]).apply({WHOLE: {DeviceId("cuda0"): 1}})
    with pytest.raises(InsufficientResource):
        state.allocate(ask(cuda_device="1"))


def test_slices_and_whole_devices_are_never_mixed() -> None:
    state = DeviceMap.of(_cut())
    assert amounts_of(state.allocate(ask(cuda_device="2")), WHOLE) == {"cuda0": 1, "cuda1": 1}
    with pytest.raises(AllocationRefused):
        state.allocate(ask(cuda_device="3"))


def test_a_slice_is_allocated_when_its_memory_is_enough() -> None:
    options = AllocationOptions(gpu_memory_bytes=8 * GB)
    assert amounts_of(DeviceMap.of(_cut()).allocate(ask(cuda_device="1"), options=options), WHOLE) == {"cuda0/1": 1}


def test_a_request_for_two_of_a_unique_slot_is_refused() -> None:
    slot = SlotName("tpu.host")
    device = gpu(0, costs={slot: 500})
    state = DeviceMap.of((device,), slot_types={slot: SlotType.UNIQUE})
    assert state.allocate({slot: 1}) == {slot: {"cuda0": 1}}
    with pytest.raises(InsufficientResource):
        state.allocate({slot: 2})


def test_each_device_gets_a_multiple_of_its_own_share_step() -> None:
    state = DeviceMap.of((gpu(0, quantum=10), gpu(1, quantum=250)))
    assert amounts_of(state.allocate(ask(cuda_shares="0.3")), SHARES) == {"cuda0": 300}
    assert amounts_of(state.allocate(ask(cuda_shares="1.5")), SHARES) == {"cuda0": 750, "cuda1": 750}
    with pytest.raises(InsufficientResource):
        state.allocate(ask(cuda_shares="1.3"))
