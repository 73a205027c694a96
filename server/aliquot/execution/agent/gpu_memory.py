"""How much memory of each accelerator the kernels take, and how much of it is theirs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aliquot.execution.agent.cgroups import members
from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.spawner.descendants import tree_pids
from aliquot.execution.devices.grant import held
from aliquot_schema.devices import Device, DeviceProcess, DeviceReading
from aliquot_schema.ids import DeviceId, KernelId
from aliquot_schema.slots import is_accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """What the processes of one kernel have on one device, by what the driver says of each."""

    kernel_id: KernelId
    device_id: DeviceId
    used_bytes: int
    granted_bytes: int
    """Its share of the device's memory; 0 = it was not given the device at all."""

    @property
    def is_over(self) -> bool:
        return self.used_bytes > self.granted_bytes


def memory_uses(
    kernels: Sequence[HeldKernel], readings: Sequence[DeviceReading], *, devices: Mapping[DeviceId, Device]
) -> tuple[MemoryUse, ...]:
    """Every kernel on every accelerator that processes of it are on. Blocks on /proc.

    Nothing is said of a device whose processes cannot be told apart, or that does not know what they take.
    """
    told = {reading.device_id: reading.processes for reading in readings if reading.processes}
    if not told:
        return ()
    return tuple(use for kernel in kernels for use in _uses(kernel, told, devices=devices))


def _uses(
    kernel: HeldKernel, told: Mapping[DeviceId, Sequence[DeviceProcess]], *, devices: Mapping[DeviceId, Device]
) -> Iterator[MemoryUse]:
    own = set(tree_pids(kernel.shim_pid) if kernel.shim_pid is not None else ())
    own |= set(members(kernel.group) if kernel.group is not None else ())
    units = held(kernel.spec, tuple(devices.values()))
    for device_id, processes in told.items():
        device = devices.get(device_id)
        sizes = [process.memory_bytes for process in processes if process.pid in own]
        known = [size for size in sizes if size is not None]
        if device is None or not any(map(is_accelerator, device.costs)) or not sizes or len(known) < len(sizes):
            continue
        yield MemoryUse(
            kernel_id=kernel.kernel_id,
            device_id=device_id,
            used_bytes=sum(known),
            granted_bytes=device.memory_bytes * units.get(device_id, 0) // device.budget,
        )
