"""How much of its devices each kernel uses, as far as the agent can tell."""

import os
from collections.abc import Iterable, Mapping
from typing import Final

from aliquot.execution.agent.cgroups import cpu_s as group_cpu_s
from aliquot.execution.agent.spawner.descendants import tree_cpu_ticks
from aliquot.execution.devices.plugin import DeviceUse
from aliquot_schema.devices import Device, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import MILLI, is_accelerator

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def kernel_cpu_s(*, group: str | None, shim_pid: int) -> float:
    """CPU time of a kernel's processes, seconds; without a cgroup of those that live or were waited for."""
    grouped = None if group is None else group_cpu_s(group)
    return tree_cpu_ticks(shim_pid) / _TICKS_PER_S if grouped is None else grouped


def device_uses(
    spec: ResourceSpec, *, devices: Mapping[DeviceId, Device], cpu_s: float, alive_s: float
) -> Iterable[DeviceUse]:
    """One use for each device in a spec that the agent knows."""
    shares: dict[DeviceId, int] = {}
    for slot, amounts in spec.items():
        for id, amount in amounts.items():
            if id in devices:
                shares[id] = shares.get(id, 0) + share_milli(devices[id], slot=slot, amount=amount)
    return [DeviceUse(device_id=id, share_milli=share, cpu_s=cpu_s, alive_s=alive_s) for id, share in shares.items()]


def share_milli(device: Device, *, slot: SlotName, amount: int) -> int:
    """Which part of a device an amount is, in milli of one whole unit. An accelerator's budget is in milli already."""
    taken = amount * device.costs.get(slot, 0)
    return taken if is_accelerator(slot) else taken * MILLI // device.budget
