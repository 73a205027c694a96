"""What NVML measures on a device at one moment."""

from pathlib import Path
from typing import Any, Final

from aliquot.execution.devices.nvml_driver import NvmlDriver
from aliquot_schema.devices import Device, DeviceProcess, DeviceReading

_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
"""The kernel gives the first pid namespace this inode always (PROC_PID_INIT_INO)."""
_MPS_SERVER: Final = "nvidia-cuda-mps"
"""`comm` of the MPS server, cut at 15 characters."""


def reading(driver: NvmlDriver, handle: Any, *, device: Device, proc: Path) -> DeviceReading:
    """Measure a device. What a card or a slice cannot say is None."""
    utilization = driver.ask("nvmlDeviceGetUtilizationRates", handle)
    milliwatts = driver.ask("nvmlDeviceGetPowerUsage", handle)
    temperature = driver.first(
        ("nvmlDeviceGetTemperatureV", handle, driver.nvml.NVML_TEMPERATURE_GPU),
        ("nvmlDeviceGetTemperature", handle, driver.nvml.NVML_TEMPERATURE_GPU),
    )
    return DeviceReading(
        device_id=device.id,
        utilization_pct=None if utilization is None else float(utilization.gpu),
        memory_used_bytes=_memory_used(driver, handle),
        temperature_c=None if temperature is None else float(temperature),
        power_w=None if milliwatts is None else milliwatts / 1000,
        processes=processes(driver, handle, proc=proc),
    )


def processes(driver: NvmlDriver, handle: Any, *, proc: Path) -> tuple[DeviceProcess, ...] | None:
    """Compute and graphics processes on a device, by pid.

    The driver knows pids of the initial namespace only: in another one they mean other processes. Under MPS the
    server stands in for its clients. Both are None.
    """
    if not in_initial_pid_namespace(proc) or driver.ask("nvmlDeviceGetMPSComputeRunningProcesses_v3", handle):
        return None
    lists = [
        driver.first(
            (f"nvmlDeviceGet{kind}RunningProcesses_v3", handle), (f"nvmlDeviceGet{kind}RunningProcesses_v2", handle)
        )
        for kind in ("Compute", "Graphics")
    ]
    if lists[0] is None:
        return None
    memory: dict[int, int | None] = {}
    for process in (process for found in lists for process in found or ()):
        both = [size for size in (memory.get(process.pid), process.usedGpuMemory) if size is not None]
        memory[process.pid] = max(both, default=None)
    if any(_name(proc, pid).startswith(_MPS_SERVER) for pid in memory):
        return None
    return tuple(DeviceProcess(pid=pid, memory_bytes=memory[pid]) for pid in sorted(memory))


def in_initial_pid_namespace(proc: Path) -> bool:
    """Whether pids here are what the driver means by them."""
    try:
        return str((proc / "self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _memory_used(driver: NvmlDriver, handle: Any) -> int | None:
    """The second version leaves out what the driver keeps for itself."""
    memory = driver.first(
        ("nvmlDeviceGetMemoryInfo", handle, driver.nvml.nvmlMemory_v2), ("nvmlDeviceGetMemoryInfo", handle)
    )
    return None if memory is None else int(memory.used)


def _name(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
