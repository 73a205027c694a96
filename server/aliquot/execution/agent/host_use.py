"""Host use: CPU time and memory of running kernels, read once per kernel and interval.

The source is the kernel's cgroup of version 2, if there is one; memory needs its memory controller. Otherwise the
kernel's process tree is read: pages that several processes share then count once for each of them, as in Slurm's
`jobacct_gather/linux`.
"""

import os
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from aliquot.execution.agent.cgroups import cpu_s, memory_bytes
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.spawner.descendants import tree_use
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.leases import HostUse, larger

_TICK_MS: Final = 1000 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def measure(kernels: Iterable[KernelHandle], *, now: float) -> dict[KernelId, HostUse]:
    """Measure each kernel, keep the result and its peaks in the handle, and return it. Blocks on /proc.

    Args:
        kernels: with a known shim.
        now: seconds of the monotonic clock.
    """
    return {kernel.kernel_id: _measured(kernel, now=now) for kernel in kernels}


def at_exit(kernel: KernelHandle, found: dict[str, Any]) -> HostUse | None:
    """The use of an ended kernel: its last measurement, with the CPU time of its exit record if that is more."""
    cpu_ms = found.get("cpu_ms")
    use = kernel.host_use
    if use is None:
        return None if cpu_ms is None else HostUse(cpu_ms=cpu_ms)
    return replace(use, cpu_ms=max(use.cpu_ms, cpu_ms or 0))


def _measured(kernel: KernelHandle, *, now: float) -> HostUse:
    cpu_ms, memory = _read(kernel)
    before, seconds = kernel.host_use, now - kernel.measured_at
    cpu_milli: int | None = None
    if before is not None:
        cpu_ms = max(cpu_ms, before.cpu_ms)
        if seconds > 0:
            cpu_milli = round((cpu_ms - before.cpu_ms) / seconds)
    use = HostUse(
        cpu_ms=cpu_ms, cpu_milli=cpu_milli, cpu_milli_max=cpu_milli, memory_bytes=memory, memory_bytes_max=memory
    )
    if before is not None:
        use = replace(
            use,
            cpu_milli_max=larger(cpu_milli, before.cpu_milli_max),
            memory_bytes_max=larger(memory, before.memory_bytes_max),
        )
    kernel.host_use, kernel.measured_at = use, now
    return use


def _read(kernel: KernelHandle) -> tuple[int, int | None]:
    """(CPU time in ms, memory in bytes); of the process tree only where the kernel has no usable cgroup."""
    assert kernel.shim_pid is not None
    seconds = None if kernel.group is None else cpu_s(kernel.group)
    memory = None if kernel.group is None else memory_bytes(kernel.group)
    if seconds is not None and memory is not None:
        return round(seconds * 1000), memory
    ticks, pages = tree_use(kernel.shim_pid)
    cpu_ms = round(ticks * _TICK_MS) if seconds is None else round(seconds * 1000)
    return cpu_ms, pages * _PAGE_BYTES
