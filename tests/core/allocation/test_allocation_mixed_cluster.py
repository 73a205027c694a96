"""An agent joins, loses its plugin, restarts with a renamed slot while kernels run, and leaves."""

import pytest
from msgspec.structs import replace

from aliquot.core.allocation import DeviceMap, gpu_alloc_map
from aliquot.core.allocation.options import DEFAULT_OPTIONS
from aliquot.core.scheduler.feasibility import refusal_when_empty
from aliquot_schema.errors import AllocationRefused, InsufficientResource, UnsupportedResource
from aliquot_schema.resources.devices import DeviceHealth
from allocation_devices import CPU, SHARES, WHOLE, ask, cores, gpus

JOINED = (*(replace(device, costs={SHARES: 1}) for device in gpus(2)), *cores(range(2)))
PLUGIN_LOST = tuple(replace(device, health=DeviceHealth.GONE) if device.kind == "cuda" else device for device in JOINED)
RENAMED = (*(replace(device, costs={WHOLE: 1000}) for device in gpus(2)), *cores(range(2)))


def test_devices_stay_held_when_their_agent_loses_its_plugin_or_renames_a_slot_or_leaves() -> None:
    state = DeviceMap.of(JOINED)
    running = state.allocate(ask(cuda_shares="0.5", cpu="1"))
    held = [running]

    lost = DeviceMap.of(PLUGIN_LOST, specs=held)
    with pytest.raises(InsufficientResource):
        lost.allocate(ask(cuda_shares="0.1"))
    assert refusal_when_empty(lost.layout, tuple(ask(cuda_shares="0.1").items()), DEFAULT_OPTIONS) is not None
    assert lost.allocate(ask(cpu="1")) == {CPU: {"cpu1": 1}}
    assert gpu_alloc_map(held, PLUGIN_LOST) == {"cuda0": 0, "cuda1": 500}

    renamed = DeviceMap.of(RENAMED, specs=held)
    with pytest.raises(UnsupportedResource):
        renamed.allocate(ask(cuda_shares="0.1"))
    assert renamed.allocate(ask(cuda_shares="0", cuda_device="1")) == {WHOLE: {"cuda0": 1}}
    with pytest.raises(InsufficientResource):
        renamed.allocate(ask(cuda_device="2"))
    held.append(renamed.allocate(ask(cuda_device="1")))
    assert gpu_alloc_map(held, RENAMED) == {"cuda0": 1000, "cuda1": 500}

    full = DeviceMap.of(RENAMED, specs=held)
    after = full.release(running)
    assert after.allocate(ask(cuda_device="1")) == {WHOLE: {"cuda1": 1}}
    assert after.release(held[1]).used == {}

    left = DeviceMap.of((), specs=held)
    with pytest.raises(UnsupportedResource):
        left.allocate(ask(cuda_device="1"))
    assert left.free(WHOLE).total == 0
    assert gpu_alloc_map(held, ()) == {"cuda0": 1000, "cuda1": 500}


def test_each_agent_of_a_mixed_cluster_decides_by_its_own_devices() -> None:
    with_gpus, without = DeviceMap.of(JOINED), DeviceMap.of(cores(range(4)))
    request = ask(cuda_shares="0.5", cpu="1")
    assert set(with_gpus.allocate(request)) == {SHARES, CPU}
    assert isinstance(refusal_when_empty(without.layout, tuple(request.items()), DEFAULT_OPTIONS), UnsupportedResource)
    assert without.allocate(ask(cuda_shares="0", cpu="1")) == {CPU: {"cpu0": 1}}


def test_two_agents_of_one_node_never_oversubscribe_a_device() -> None:
    """Both see all devices; a grant of either counts in both maps."""
    first, second = DeviceMap.of(gpus(2)), DeviceMap.of(gpus(2))
    for _ in range(5):
        for _ in range(2):
            spec = first.allocate(ask(cuda_shares="0.2"))
            first, second = first.apply(spec), second.apply(spec)
            first, second = second, first
    with pytest.raises(AllocationRefused):
        second.allocate(ask(cuda_shares="0.1"))
