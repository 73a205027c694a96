"""Inventory: the agent's description of itself, its devices and its kernels, sent when it joins."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from aliquot.execution.agent.config import AgentConfig
from aliquot.execution.agent.device_health import with_faults
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.devices.device_set import DeviceSet
from aliquot_schema.cluster.agents import Agent, Capabilities
from aliquot_schema.cluster.launching import Inventory, SpecOnDisk
from aliquot_schema.ids import AgentId, DeviceId, SessionId
from aliquot_schema.resources.devices import Device, DeviceHealth

_UNUSABLE: Final = {
    DeviceHealth.LEAVING: "is no longer in the configuration: no new work; removed when its last holder ends",
    DeviceHealth.GONE: "is lost: its driver no longer lists it",
    DeviceHealth.UNHEALTHY: "is unhealthy: no new work",
}

_log: Final = logging.getLogger(__name__)


def describe(
    config: AgentConfig,
    *,
    devices: DeviceSet,
    notices: Mapping[str, str],
    faults: Mapping[DeviceId, str],
    capabilities: Capabilities,
    kernels: Sequence[KernelHandle],
) -> Inventory:
    """Discover the devices again and read the kernels' spec files. Blocks.

    A kernel that was stopped before its order arrived has no spec; an unreadable spec file is reported as None.

    Args:
        notices: see `NodeNotices.attributes`.
        faults: see `HealthWatch.faults`.
    """
    held = {device_id for kernel in kernels for amounts in kernel.spec.values() for device_id in amounts}
    found, troubles = with_faults(devices.discover(held=held), faults)
    agent = Agent(
        id=config.id,
        version=0,
        node_id=config.node.node_id,
        hostname=config.node.hostname,
        devices=found,
        slot_types=devices.slot_types(),
        attributes={**devices.attributes(), **troubles, **notices},
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


def log_unusable_devices(
    agent_id: AgentId, known: Mapping[DeviceId, Device], holders: Mapping[DeviceId, Sequence[SessionId]]
) -> None:
    """Log each held device that accepts no new work, with the sessions that hold it."""
    for device_id, sessions in sorted(holders.items()):
        device = known.get(device_id)
        health = DeviceHealth.LEAVING if device is None else device.health
        if health is DeviceHealth.HEALTHY:
            continue
        name = device_id if device is None else f"{device.name} ({device_id})"
        held_by = ", ".join(dict.fromkeys(sessions))
        _log.warning("agent %s: device %s %s; held by %s", agent_id, name, _UNUSABLE[health], held_by)
