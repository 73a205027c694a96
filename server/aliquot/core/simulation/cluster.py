"""Clusters to simulate on: a pool of GPUs that are all alike, or nodes."""

from typing import Final

from aliquot.core.allocation.layout import DeviceLayout
from aliquot.core.snapshot import AgentRow
from aliquot_schema.devices import Device
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SlotName
from aliquot_schema.slots import MILLI

SLOT: Final = SlotName("cuda.device")


def pool(gpus: int) -> tuple[AgentRow, ...]:
    """GPUs of which any will do, wherever they are: one device with so many units."""
    return (_agent("pool", [_device("pool", units=gpus)]),)


def nodes(count: int, *, gpus_each: int) -> tuple[AgentRow, ...]:
    """Nodes with whole GPUs; a kernel gets all of its GPUs on one of them."""
    return tuple(
        _agent(f"node{number}", [_device(f"node{number}-cuda{index}", units=1) for index in range(gpus_each)])
        for number in range(count)
    )


def _agent(name: str, devices: list[Device]) -> AgentRow:
    return AgentRow(id=AgentId(name), node_id=NodeId(name), layout=DeviceLayout.of(devices), is_open=True)


def _device(name: str, *, units: int) -> Device:
    return Device(
        id=DeviceId(name),
        name=name,
        kind="cuda",
        model="",
        budget=units * MILLI,
        costs={SLOT: MILLI},
        quanta={},
        memory_bytes=0,
    )
