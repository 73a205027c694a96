"""The cluster that is shown where there is no GPU: two mock nodes with eight H100 each."""

from dataclasses import replace
from functools import partial
from typing import Final

from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.identity import node_identity
from aliquot.execution.devices.mock import MockPlugin
from aliquot.execution.devices.mock_file import MockDescription, MockDevice, NumberFormat, SlotFormat
from aliquot.execution.devices.node_devices import NodeDevices, NodeSource
from aliquot.execution.devices.plugin import DevicePlugin
from aliquot_schema.ids import AgentId, NodeId

DEMO_MODEL: Final = "NVIDIA H100 80GB HBM3"
DEMO_MEMORY: Final = 81_559 * 1024**2
"""Bytes; what a real one reports: 79.6 GiB, more than 80 * 10**9."""

_SM_COUNT: Final = 132
_FORMATS: Final = {
    "device": SlotFormat(display_unit="GPU", human_readable_name="GPU"),
    "shares": SlotFormat(
        display_unit="GPU",
        human_readable_name="Fractional GPU",
        number_format=NumberFormat(round_length=2),
    ),
}


def demo_cluster(*, nodes: int = 2, gpus: int = 8, cpu: int = 64, mem: str = "512g") -> tuple[NodeDevices, ...]:
    """Agents `demo-1`, `demo-2`, ... each on a node of its own, with declared CPUs and memory.

    Everything runs on this machine, so that more CPUs are handed out than there are; the ids of the nodes and GPUs
    are the same on every machine and after every start.

    Args:
        gpus: per node, half of them on each of two NUMA nodes.
    """
    return tuple(source.whole() for source in demo_sources(nodes=nodes, gpus=gpus, cpu=cpu, mem=mem))


def demo_sources(*, nodes: int = 2, gpus: int = 8, cpu: int = 64, mem: str = "512g") -> tuple[NodeSource, ...]:
    """The nodes of the demo cluster."""
    return tuple(_node(number, gpus=gpus, cpu=cpu, mem=mem) for number in range(1, nodes + 1))


def demo_description(number: int, *, gpus: int) -> MockDescription:
    """The accelerators of the demo node `number`, counted from 1."""
    ids = [f"a11c0000-{number:04x}-4000-8000-{index:012x}" for index in range(gpus)]
    devices = [
        MockDevice(
            mother_uuid=ids[index],
            model_name=DEMO_MODEL,
            numa_node=index * 2 // gpus,
            subproc_count=_SM_COUNT,
            memory_size=DEMO_MEMORY,
            is_mig_device=False,
            linked_to=[other for other in ids if other != ids[index]],  # as by NVSwitch
        )
        for index in range(gpus)
    ]
    return MockDescription(slot_name="cuda", device_plugin_name="CUDADevice", devices=devices, formats=_FORMATS)


def _node(number: int, *, gpus: int, cpu: int, mem: str) -> NodeSource:
    name = f"demo-{number}"
    return NodeSource(
        agent_id=AgentId(name),
        node=replace(node_identity(), node_id=NodeId(name), hostname=name),
        plugins=partial(_plugins, number, gpus=gpus, cpu=cpu, mem=mem),
    )


def _plugins(number: int, *, gpus: int, cpu: int, mem: str) -> tuple[DevicePlugin, ...]:
    host = HostPlugin({"cpu": cpu, "mem": mem, "numa-nodes": 2})
    return MockPlugin(demo_description(number, gpus=gpus)), host
