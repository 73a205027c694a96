"""NVIDIA GPUs through NVML. The driver's library is loaded when it is asked for the first time, not on import."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from aliquot.execution.devices.checked import Table
from aliquot.execution.devices.grant import held
from aliquot.execution.devices.nvml_devices import KIND, SHARES, WHOLE, NvmlDevice, found_devices
from aliquot.execution.devices.nvml_driver import NvmlDriver, NvmlUnavailable
from aliquot.execution.devices.nvml_links import linked_gpus
from aliquot.execution.devices.nvml_readings import reading
from aliquot.execution.devices.plugin import DeviceGate, DeviceUse
from aliquot.execution.devices.visibility import visible_devices
from aliquot_schema.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import SlotType

MAJOR: Final = 195
LAST_GPU: Final = 253
"""Of the character devices of the driver, minors 254 and 255 are for all: modeset and control."""


class NvmlConfig(Table):
    """The `nvml` table: nothing can be set."""


class NvmlPlugin:
    """The GPUs and MIG slices of this machine. No driver is a normal state: no devices, and a `diagnosis`."""

    kind = KIND

    def __init__(self, config: Mapping[str, object] | None = None, *, root: Path = Path("/")) -> None:
        """Touch nothing yet; `root` is where `/proc` and `/sys` are found.

        Raises:
            DeviceFileError: the configuration has a key.
        """
        NvmlConfig.checked(config or {}, source="nvml")
        self._root = root
        self._driver: NvmlDriver | None = None
        self._found: dict[DeviceId, NvmlDevice] = {}
        self._by_index: dict[int, tuple[NvmlDevice, ...]] = {}
        self._attributes: dict[str, str] = {}
        self.diagnosis = "NVML was not asked yet"
        """Why there are no devices, in one line; empty when there are."""

    def discover(self) -> tuple[Device, ...]:
        """Ask the driver anew. Without one it is looked for again at the next call."""
        try:
            found = self._look(self._open())
        except NvmlUnavailable as unavailable:
            self.close()
            self.diagnosis = str(unavailable)
            return ()
        self._found = {one.device.id: one for one in found}
        self.diagnosis = "" if found else "the NVIDIA driver is loaded, but shows no GPU"
        return tuple(one.device for one in found)

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """`cuda.device` and `cuda.shares`, both counted."""
        return {WHOLE: SlotType.COUNT, SHARES: SlotType.COUNT}

    def attributes(self) -> Mapping[str, str]:
        """Versions of the driver and of CUDA, and `<name>.trouble` for each device that is not healthy."""
        troubles = {f"{one.device.name}.trouble": one.trouble for one in self._found.values() if one.trouble}
        return self._attributes | troubles

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:  # noqa: ARG002 - the driver knows
        """Measure every device that was found last."""
        if self._driver is None:
            return ()
        proc = self._root / "proc"
        return tuple(
            reading(self._driver, one.handle, device=one.device, proc=proc)
            for one in self._found.values()
            if one.handle is not None
        )

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """What CUDA and containers may see: the UUIDs in the natural order of the devices' names."""
        return visible_devices(KIND, tuple(held(spec, [one.device for one in self._found.values()])))

    def gate(self, spec: ResourceSpec) -> DeviceGate | None:
        """The files of the GPUs; None where GPUs are cut, since slices share a file, or a number is not told."""
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

    def _look(self, driver: NvmlDriver) -> tuple[NvmlDevice, ...]:
        before, self._by_index = self._by_index, {}
        for index, handle in driver.handles():
            found = None if handle is None else found_devices(driver, handle, index=index, sysfs=self._root / "sys")
            self._by_index[index] = tuple(map(_silent, before.get(index, ()))) if found is None else found
        return _with_links(driver, [one for found in self._by_index.values() for one in found])


def _silent(found: NvmlDevice) -> NvmlDevice:
    """A GPU that was there and no longer tells its id."""
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
