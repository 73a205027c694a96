"""NVML devices: discovery of GPUs and MIG slices, NVLink topology, health and readings."""

import pwd
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from aliquot.execution.devices.nvml_driver import NvmlDriver
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceProcess, DeviceReading, Isolation
from aliquot_schema.resources.slots import MILLI


def linked_gpus(driver: NvmlDriver, handles: Mapping[DeviceId, Any]) -> dict[DeviceId, tuple[DeviceId, ...]]:
    """The NVLink peers of each GPU. GPUs connected to NVSwitches are all peers of each other."""
    by_bus = {bus: id for id, handle in handles.items() if (bus := bus_id(driver, handle)) is not None}
    ends = {id: _link_ends(driver, handle) for id, handle in handles.items()}
    switched = {id for id, (_, on_switch) in ends.items() if on_switch}
    links: dict[DeviceId, tuple[DeviceId, ...]] = {}
    for id, (buses, _) in ends.items():
        peers = {by_bus[bus] for bus in buses if bus in by_bus} | (switched if id in switched else set())
        links[id] = tuple(peer for peer in handles if peer in peers and peer != id)
    return links


def bus_id(driver: NvmlDriver, handle: Any) -> str | None:
    """PCI address in sysfs notation (`0000:17:00.0`); NVML uses an eight-digit domain and upper case."""
    return _address(driver.ask("nvmlDeviceGetPciInfo_v3", handle))


def _link_ends(driver: NvmlDriver, handle: Any) -> tuple[set[str], bool]:
    """PCI addresses of the remote ends of active links, and whether one of them is a switch."""
    buses: set[str] = set()
    on_switch = False
    for link in range(driver.nvml.NVML_NVLINK_MAX_LINKS):
        active = driver.ask("nvmlDeviceGetNvLinkState", handle, link)
        if active is None:
            break
        if not active:
            continue
        kind = driver.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        on_switch = on_switch or kind == driver.nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        address = _address(driver.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
        if address is not None:
            buses.add(address)
    return buses, on_switch


def _address(info: Any) -> str | None:
    if info is None:
        return None
    domain, _, rest = str(info.busId).lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}" if rest else None


KIND: Final = "cuda"
WHOLE: Final = SlotName("cuda.device")
SHARES: Final = SlotName("cuda.shares")
SHARE_QUANTUM: Final = 10
"""Granularity of `cuda.shares`, thousandths of a GPU."""

_NUMA_WORDS: Final = 16
"""64-bit words of NVML's NUMA node mask: 1,024 nodes."""


class NvmlDevice(Struct, frozen=True, kw_only=True):
    """A device with its NVML handle."""

    device: Device
    handle: Any
    minor: int | None = None
    """The N of /dev/nvidiaN; None for slices, which share the file of their GPU."""
    trouble: str | None = None
    """Why the device is unhealthy; None = healthy."""


def found_devices(driver: NvmlDriver, handle: Any, *, index: int, sysfs: Path) -> tuple[NvmlDevice, ...] | None:
    """One GPU as a device, or its MIG slices if MIG is enabled (the whole GPU is then unusable).

    The id is NVML's UUID, also of slices (`MIG-...`): CUDA_VISIBLE_DEVICES accepts it, and unlike a slice's number it
    is never reused after the GPU is repartitioned. CUDA shows a process at most one slice, the first of its list.

    Returns:
        None if the GPU does not report its id; empty if MIG is enabled without slices.
    """
    uuid = driver.ask("nvmlDeviceGetUUID", handle)
    if uuid is None:
        return None
    trouble = _trouble(driver, handle)
    whole = Device(
        id=DeviceId(uuid),
        name=f"{KIND}{index}",
        kind=KIND,
        model=driver.ask("nvmlDeviceGetName", handle) or "NVIDIA GPU",
        budget=MILLI,
        costs={WHOLE: MILLI, SHARES: 1},
        quanta={SHARES: SHARE_QUANTUM},
        memory_bytes=_total(driver, handle),
        numa_node=numa_node(driver, handle, sysfs=sysfs),
        health=DeviceHealth.UNHEALTHY if trouble else DeviceHealth.HEALTHY,
    )
    mode = driver.ask("nvmlDeviceGetMigMode", handle)
    if mode and mode[0] == driver.nvml.NVML_DEVICE_MIG_ENABLE:
        return tuple(_slices(driver, handle, whole=whole, trouble=trouble))
    minor = driver.ask("nvmlDeviceGetMinorNumber", handle)
    return (NvmlDevice(device=whole, handle=handle, minor=minor, trouble=trouble),)


def numa_node(driver: NvmlDriver, handle: Any, *, sysfs: Path) -> int | None:
    """NUMA node of the GPU's PCI slot.

    nvmlDeviceGetNumaNodeId is different: on coherent systems it is the node formed by the GPU's own memory.
    """
    address = bus_id(driver, handle)
    if address is not None:
        try:
            node = int((sysfs / "bus/pci/devices" / address / "numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            node = -1
        if node >= 0:
            return node
    scope = driver.nvml.NVML_AFFINITY_SCOPE_NODE
    mask = driver.ask("nvmlDeviceGetMemoryAffinity", handle, _NUMA_WORDS, scope)
    return _lowest_bit(list(mask)) if mask is not None else None


def _slices(driver: NvmlDriver, handle: Any, *, whole: Device, trouble: str | None) -> Iterator[NvmlDevice]:
    for number in range(driver.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = driver.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        uuid = driver.ask("nvmlDeviceGetUUID", part) if part is not None else None
        if uuid is None:
            continue
        attributes = driver.ask("nvmlDeviceGetAttributes_v2", part)
        device = Device(
            id=DeviceId(uuid),
            name=f"{whole.name}/{number}",
            kind=KIND,
            model=driver.ask("nvmlDeviceGetName", part) or whole.model,
            budget=MILLI,
            costs=whole.costs,
            quanta=whole.quanta,
            memory_bytes=_total(driver, part) or (attributes.memorySizeMB * 1024**2 if attributes else 0),
            numa_node=whole.numa_node,
            parent=whole.id,
            isolation=Isolation.MIG,
            health=whole.health,
            processors=attributes.multiprocessorCount if attributes else 0,
        )
        yield NvmlDevice(device=device, handle=part, trouble=trouble)


def _trouble(driver: NvmlDriver, handle: Any) -> str | None:
    """Why a GPU is unhealthy, or None. ECC counters are volatile: they count from driver load, a reset clears them.

    Source: NVIDIA GPU Memory Error Management (row remapping, page retirement).
    """
    nvml = driver.nvml
    broken = driver.health_fault(handle)
    if broken:
        return broken
    kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    errors = driver.ask("nvmlDeviceGetTotalEccErrors", handle, kind, since)
    rows = driver.ask("nvmlDeviceGetRemappedRows", handle)
    pages = driver.ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)
    if rows and rows[3]:
        return "a memory row could not be remapped"
    if errors:
        return f"{errors} uncorrectable ECC errors since the driver was loaded"
    if (rows and rows[2]) or pages:
        return "a memory repair is pending; reset the GPU"
    return None


def _total(driver: NvmlDriver, handle: Any) -> int:
    memory = driver.ask("nvmlDeviceGetMemoryInfo", handle)
    return int(memory.total) if memory is not None else 0


def _lowest_bit(words: Sequence[int]) -> int | None:
    for place, word in enumerate(words):
        if word:
            return place * 64 + (word & -word).bit_length() - 1
    return None


_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
"""Fixed inode of the initial pid namespace (PROC_PID_INIT_INO)."""
_MPS_SERVER: Final = "nvidia-cuda-mps"
"""`comm` of the MPS server, truncated to 15 characters."""


def reading(driver: NvmlDriver, handle: Any, *, device: Device, proc: Path) -> DeviceReading:
    """Measure a device. Values that the GPU or slice does not support are None."""
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
    """Compute and graphics processes on a device, ascending by pid.

    None in another pid namespace, because the driver reports pids of the initial one, and under MPS, because the
    driver reports the MPS server instead of its clients.
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
    return tuple(DeviceProcess(pid=pid, memory_bytes=memory[pid], user=_user(proc, pid)) for pid in sorted(memory))


def in_initial_pid_namespace(proc: Path) -> bool:
    """Whether this process sees the same pids as the driver."""
    try:
        return str((proc / "self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


def _memory_used(driver: NvmlDriver, handle: Any) -> int | None:
    """Version 2 of the call excludes memory reserved by the driver."""
    memory = driver.first(
        ("nvmlDeviceGetMemoryInfo", handle, driver.nvml.nvmlMemory_v2), ("nvmlDeviceGetMemoryInfo", handle)
    )
    return None if memory is None else int(memory.used)


def _user(proc: Path, pid: int) -> str | None:
    """The account that a process runs as, by its number if it has no name; None when the process is gone."""
    try:
        uid = (proc / str(pid)).stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _name(proc: Path, pid: int) -> str:
    try:
        return (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
