"""GPU memory watchdog: kernels that exceed their share of an accelerator's memory are flagged or stopped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from aliquot.execution.agent.cgroups import members
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.spawner.descendants import tree_pids
from aliquot.execution.devices.plugin import held
from aliquot_schema.ids import DeviceId, KernelId
from aliquot_schema.resources.devices import Device, DeviceProcess, DeviceReading
from aliquot_schema.resources.slots import is_accelerator


class MemoryUse(Struct, frozen=True, kw_only=True):
    """Memory of one kernel's processes on one device, as reported by the driver."""

    kernel_id: KernelId
    device_id: DeviceId
    used_bytes: int
    granted_bytes: int
    """The kernel's share of the device's memory; 0 = the device was not granted to it."""

    @property
    def is_over(self) -> bool:
        return self.used_bytes > self.granted_bytes


def memory_uses(
    kernels: Sequence[KernelHandle], readings: Sequence[DeviceReading], *, devices: Mapping[DeviceId, Device]
) -> tuple[MemoryUse, ...]:
    """Memory of every kernel on every accelerator that its processes use. Blocks on /proc.

    Devices that do not report their processes or the processes' memory are omitted.
    """
    by_device = {reading.device_id: reading.processes for reading in readings if reading.processes}
    if not by_device:
        return ()
    return tuple(use for kernel in kernels for use in _uses(kernel, by_device, devices=devices))


def _uses(
    kernel: KernelHandle, by_device: Mapping[DeviceId, Sequence[DeviceProcess]], *, devices: Mapping[DeviceId, Device]
) -> Iterator[MemoryUse]:
    own = own_pids(kernel)
    units = held(kernel.spec, tuple(devices.values()))
    for device_id, processes in by_device.items():
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


def own_pids(kernel: KernelHandle) -> set[int]:
    """Processes of a kernel. Blocks on /proc."""
    own = set(tree_pids(kernel.shim_pid) if kernel.shim_pid is not None else ())
    return own | set(members(kernel.group) if kernel.group is not None else ())


def with_jobs_marked(readings: Sequence[DeviceReading], kernels: Sequence[KernelHandle]) -> tuple[DeviceReading, ...]:
    """The readings with each process marked as one of these kernels or not. Blocks on /proc."""
    if not any(reading.processes for reading in readings):
        return tuple(readings)
    own = {pid for kernel in kernels for pid in own_pids(kernel)}
    return tuple(
        replace(reading, processes=tuple(replace(one, is_job=one.pid in own) for one in reading.processes))
        if reading.processes
        else reading
        for reading in readings
    )


STRIKES: Final = 2
"""Consecutive measurements above the share before a kernel is flagged; one alone may include an ending process."""
CODE: Final = "over_memory"


class MemoryPolicy(StrEnum):
    """Reaction to a kernel that exceeds its share."""

    OFF = "off"
    FLAG = "flag"
    """The kernel is flagged with a message."""
    STOP = "stop"
    """The kernel is flagged and stopped, with its usual grace period."""


class MemoryVerdict(Struct, frozen=True, kw_only=True):
    """A kernel's flag has changed."""

    kernel_id: KernelId
    message: str | None
    """How the kernel exceeds its share; None = it no longer does."""


@dataclass(slots=True)
class MemoryWatch:
    """Flags kernels from measurement to measurement; memory that cannot be attributed to a kernel is ignored."""

    _strikes: dict[KernelId, int] = field(default_factory=dict)
    _flagged: set[KernelId] = field(default_factory=set)

    def judge(self, uses: Sequence[MemoryUse]) -> list[MemoryVerdict]:
        """Flags that change with this measurement. Kernels without an entry keep theirs."""
        by_kernel: dict[KernelId, list[MemoryUse]] = {}
        for use in uses:
            by_kernel.setdefault(use.kernel_id, []).append(use)
        verdicts = (self._judge(kernel_id, found) for kernel_id, found in by_kernel.items())
        return [verdict for verdict in verdicts if verdict is not None]

    def forget(self, known: set[KernelId]) -> None:
        """Drop the state of all kernels except these."""
        self._strikes = {kernel_id: count for kernel_id, count in self._strikes.items() if kernel_id in known}
        self._flagged &= known

    def _judge(self, kernel_id: KernelId, uses: list[MemoryUse]) -> MemoryVerdict | None:
        over = [use for use in uses if use.is_over]
        self._strikes[kernel_id] = self._strikes.get(kernel_id, 0) + 1 if over else 0
        if self._strikes[kernel_id] == STRIKES:
            self._flagged.add(kernel_id)
            return MemoryVerdict(kernel_id=kernel_id, message="; ".join(map(_message, over)))
        if not over and kernel_id in self._flagged:
            self._flagged.remove(kernel_id)
            return MemoryVerdict(kernel_id=kernel_id, message=None)
        return None


def memory_text(size: int) -> str:
    """A size for display, rounded: `1.00 GiB`, `512.0 MiB`."""
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"


def _message(use: MemoryUse) -> str:
    if use.granted_bytes == 0:
        return f"uses {memory_text(use.used_bytes)} of {use.device_id}, which was not granted to it"
    return f"uses {memory_text(use.used_bytes)} of {use.device_id} and was granted {memory_text(use.granted_bytes)}"
