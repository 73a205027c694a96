"""Devices as NVML describes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aliquot.execution.devices.nvml_driver import NvmlDriver
from aliquot.execution.devices.nvml_links import bus_id
from aliquot_schema.devices import Device, DeviceHealth, Isolation
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import MILLI

KIND: Final = "cuda"
WHOLE: Final = SlotName("cuda.device")
SHARES: Final = SlotName("cuda.shares")
SHARE_QUANTUM: Final = 10
"""Milli: the step of `cuda.shares`."""

_NUMA_WORDS: Final = 16
"""64-bit words of the mask of NUMA nodes that NVML fills: 1,024 nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """A device with what NVML knows it by."""

    device: Device
    handle: Any
    minor: int | None = None
    """The N of /dev/nvidiaN; None for slices, which share that of their GPU."""
    trouble: str | None = None
    """Why it is not healthy, in words."""


def found_devices(driver: NvmlDriver, handle: Any, *, index: int, sysfs: Path) -> tuple[NvmlDevice, ...] | None:
    """The device of one GPU, or its MIG slices where MIG is on: then nothing can run on the GPU as a whole.

    The id is what NVML calls UUID, of slices too (`MIG-...`): CUDA_VISIBLE_DEVICES takes exactly this, and unlike
    the number of a slice it never means another slice after the GPU was cut anew. CUDA shows a process one slice at
    most, the first that it is given.

    Returns:
        None when the GPU does not even tell its id; empty when MIG is on and nothing was cut yet.
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
    """The NUMA node that the GPU's PCI slot belongs to.

    nvmlDeviceGetNumaNodeId means something else: the node that the GPU's own memory is, on coherent systems.
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
    """What is wrong with a GPU. Counters are those since the driver was loaded: a reset clears them.

    Source: NVIDIA GPU Memory Error Management (row remapping, page retirement).
    """
    nvml = driver.nvml
    broken = driver.breakage(handle)
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
        return "memory waits for a reset to be repaired"
    return None


def _total(driver: NvmlDriver, handle: Any) -> int:
    memory = driver.ask("nvmlDeviceGetMemoryInfo", handle)
    return int(memory.total) if memory is not None else 0


def _lowest_bit(words: Sequence[int]) -> int | None:
    for place, word in enumerate(words):
        if word:
            return place * 64 + (word & -word).bit_length() - 1
    return None
