"""Inventory: the agent's description of itself, its devices and its kernels, sent when it joins."""

from collections.abc import Sequence

from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.devices.device_set import DeviceSet
from aliquot_schema.cluster.agents import Agent, Capabilities
from aliquot_schema.cluster.launching import Inventory, SpecOnDisk


def describe(
    config: AgentConfig, *, devices: DeviceSet, capabilities: Capabilities, kernels: Sequence[KernelHandle]
) -> Inventory:
    """Discover the devices again and read the kernels' spec files. Blocks.

    A kernel that was stopped before its order arrived has no spec; an unreadable spec file is reported as None.
    """
    held = {device_id for kernel in kernels for amounts in kernel.spec.values() for device_id in amounts}
    agent = Agent(
        id=config.id,
        version=0,
        node_id=config.node.node_id,
        hostname=config.node.hostname,
        devices=devices.discover(held=held),
        slot_types=devices.slot_types(),
        attributes=devices.attributes(),
        capabilities=capabilities,
        allocation_mode=config.allocation_mode,
        scaling_factor=config.scaling_factor,
        boot_id=config.node.boot_id,
        software_version=config.software_version,
        registered_us=0,
        state_changed_us=0,
    )
    reports = tuple(kernel.report for kernel in kernels if kernel.report is not None)
    specs = tuple(
        SpecOnDisk(kernel_id=kernel.kernel_id, spec=kernel.folder.read_spec(), ended=kernel.has_ended)
        for kernel in kernels
        if kernel.folder.order.exists()
    )
    return Inventory(agent=agent, kernels=reports, specs=specs)
