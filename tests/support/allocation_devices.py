"""Devices for tests of the allocation: GPUs, cores and memory with readable names."""

from collections.abc import Iterable, Mapping
from typing import Any

from aliquot.core.allocation import AllocationOptions, DeviceMap
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, ResourceSpec
from aliquot_schema.resources.slots import parse_amount

WHOLE = SlotName("cuda.device")
SHARES = SlotName("cuda.shares")
CPU = SlotName("cpu")
MEM = SlotName("mem")
GB = 10**9


def gpu(index: int, *, budget: int = 1000, quantum: int = 10, memory_bytes: int = 80 * GB, **fields: Any) -> Device:
    """`cuda<index>`: one budget for whole devices and shares."""
    named = {"id": DeviceId(f"cuda{index}"), "name": f"cuda{index}", "kind": "cuda", "model": "H100"} | fields
    costs = named.pop("costs", {WHOLE: 1000, SHARES: 1})
    return Device(budget=budget, costs=costs, quanta={SHARES: quantum}, memory_bytes=memory_bytes, **named)


def gpus(count: int, **fields: Any) -> tuple[Device, ...]:
    """`cuda0`, `cuda1`, ..."""
    return tuple(gpu(index, **fields) for index in range(count))


def slice_of(parent: Device, number: int, *, memory_bytes: int = 10 * GB) -> Device:
    """A MIG slice."""
    return gpu(
        number,
        id=DeviceId(f"{parent.id}/{number}"),
        name=f"{parent.name}/{number}",
        parent=parent.id,
        memory_bytes=memory_bytes,
    )


def cores(numbers: Iterable[int], *, numa_node: int | None = None) -> tuple[Device, ...]:
    """CPU cores of one node."""
    return tuple(_host(f"cpu{number}", slot=CPU, budget=1, numa_node=numa_node) for number in numbers)


def pool(number: int, *, size: int, numa_node: int | None = None) -> Device:
    """A memory pool."""
    return _host(f"mem{number}", slot=MEM, budget=size, numa_node=numa_node)


def _host(name: str, *, slot: SlotName, budget: int, numa_node: int | None) -> Device:
    return Device(
        id=DeviceId(name),
        name=name,
        kind=slot,
        model="",
        budget=budget,
        costs={slot: 1},
        quanta={},
        memory_bytes=0,
        numa_node=numa_node,
    )


def ask(**amounts: str) -> dict[SlotName, int]:
    """A request: `ask(cuda_shares="1.2", cpu="2")`."""
    request = {}
    for name, text in amounts.items():
        slot = SlotName(name.replace("_", "."))
        amount = parse_amount(slot, text)
        assert isinstance(amount, int)
        request[slot] = amount
    return request


def give(
    devices: DeviceMap, *, options: AllocationOptions | None = None, **amounts: str
) -> tuple[ResourceSpec, DeviceMap]:
    """Allocate and apply."""
    spec = devices.allocate(ask(**amounts), options=options or AllocationOptions())
    return spec, devices.apply(spec)


def amounts_of(spec: ResourceSpec, slot: SlotName) -> Mapping[str, int]:
    """What was given of one slot, by plain device name."""
    return {str(device_id): amount for device_id, amount in spec.get(slot, {}).items()}
