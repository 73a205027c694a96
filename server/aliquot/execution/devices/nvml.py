"""NVML plugin: NVIDIA GPUs and MIG slices. The driver library is loaded by the first `discover`, not on import."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from aliquot.execution.devices.nvml_devices import KIND, SHARES, WHOLE, NvmlDevice, found_devices, linked_gpus, reading
from aliquot.execution.devices.nvml_driver import NvmlDriver, NvmlUnavailable
from aliquot.execution.devices.plugin import DeviceGate, DeviceUse, granted, held, visible_devices
from aliquot.execution.devices.tables import Table
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.resources.slots import SlotType

MAJOR: Final = 195
LAST_GPU: Final = 253
"""Highest minor of a GPU's device file; 254 (modeset) and 255 (control) are open to all jobs."""


class NvmlConfig(Table):
    """The `nvml` table: has no keys."""


class NvmlPlugin:
    """The GPUs and MIG slices of this machine. Without a driver there are no devices, and `diagnosis` says why."""

    kind = KIND

    def __init__(self, config: Mapping[str, object] | None = None, *, root: Path = Path("/")) -> None:
        """The driver is opened by `discover`; `root` is the parent folder of `/proc` and `/sys`.

        Raises:
            DeviceFileError: the configuration has a key.
        """
        NvmlConfig.checked(config or {}, source="nvml")
        self._root = root
        self._driver: NvmlDriver | None = None
        self._found: dict[DeviceId, NvmlDevice] = {}
        self._by_index: dict[int, tuple[NvmlDevice, ...]] = {}
        self._attributes: dict[str, str] = {}
        self.diagnosis = "NVML has not been queried yet"
        """Why there are no devices, in one line; empty if there are devices."""

    def discover(self) -> tuple[Device, ...]:
        """Query the driver again; if there is none, the next call tries to open it."""
        try:
            found = self._discovered(self._open())
        except NvmlUnavailable as unavailable:
            self.close()
            self.diagnosis = str(unavailable)
            return ()
        self._found = {one.device.id: one for one in found}
        self.diagnosis = "" if found else "the NVIDIA driver is loaded, but reports no GPU"
        return tuple(one.device for one in found)

    @property
    def has_driver(self) -> bool:
        """Whether NVML answered the last `discover`."""
        return self._driver is not None

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """`cuda.device` and `cuda.shares`, both counted."""
        return {WHOLE: SlotType.COUNT, SHARES: SlotType.COUNT}

    def attributes(self) -> Mapping[str, str]:
        """Versions of the driver and of CUDA, and `<name>.trouble` for each unhealthy device."""
        troubles = {f"{one.device.name}.trouble": one.trouble for one in self._found.values() if one.trouble}
        return self._attributes | troubles

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:  # noqa: ARG002 - the driver knows
        """Measure every device of the last `discover`."""
        if self._driver is None:
            return ()
        proc = self._root / "proc"
        return tuple(
            reading(self._driver, one.handle, device=one.device, proc=proc)
            for one in self._found.values()
            if one.handle is not None
        )

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """Environment variables of CUDA and containers: the UUIDs in natural order of the devices' names."""
        return visible_devices(KIND, granted(spec, [one.device for one in self._found.values()]))

    def gate(self, spec: ResourceSpec) -> DeviceGate | None:
        """Access rule for the GPUs' files; None with MIG slices, which share a file, or if a minor is unknown."""
        minors = {one.device.id: one.minor for one in self._found.values()}
        given = held(spec, [one.device for one in self._found.values()])
        if not minors or None in minors.values():
            return None
        allowed = sorted(minor for id, minor in minors.items() if id in given and minor is not None)
        return DeviceGate(major=MAJOR, first=0, last=LAST_GPU, allowed=tuple(allowed))

    def close(self) -> None:
        """Shut NVML down; `discover` opens it again."""
        if self._driver is not None:
            self._driver.close()
        self._driver = None
        self._found = {}
        self._by_index = {}

    def _open(self) -> NvmlDriver:
        if self._driver is None:
            self._driver = NvmlDriver()
            self._attributes = _versions(self._driver)
        return self._driver

    def _discovered(self, driver: NvmlDriver) -> tuple[NvmlDevice, ...]:
        before, self._by_index = self._by_index, {}
        for index, handle in driver.handles():
            found = None if handle is None else found_devices(driver, handle, index=index, sysfs=self._root / "sys")
            self._by_index[index] = tuple(map(_unreachable, before.get(index, ()))) if found is None else found
        return _with_links(driver, [one for found in self._by_index.values() for one in found])


def _unreachable(found: NvmlDevice) -> NvmlDevice:
    """A known GPU that no longer reports its id, marked unhealthy."""
    device = replace(found.device, health=DeviceHealth.UNHEALTHY)
    return replace(found, device=device, handle=None, trouble="the GPU does not answer")


def _with_links(driver: NvmlDriver, found: Sequence[NvmlDevice]) -> tuple[NvmlDevice, ...]:
    whole = {one.device.id: one.handle for one in found if one.handle is not None and one.device.parent is None}
    links = linked_gpus(driver, whole)
    return tuple(
        replace(one, device=replace(one.device, linked_to=links.get(one.device.id, one.device.linked_to)))
        for one in found
    )


def _versions(driver: NvmlDriver) -> dict[str, str]:
    versions: dict[str, str] = {}
    name = driver.ask("nvmlSystemGetDriverVersion")
    if name:
        versions["nvidia.driver_version"] = name
    number = driver.first(("nvmlSystemGetCudaDriverVersion_v2",), ("nvmlSystemGetCudaDriverVersion",))
    if number:
        versions["nvidia.cuda_version"] = f"{number // 1000}.{number % 1000 // 10}"
    return versions
