"""The agent's own part of the node's devices."""

from collections.abc import Mapping, Sequence

from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.plugin import DeviceUse
from aliquot_schema.devices import Device, DeviceReading, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import SlotType


class OwnedDevices:
    """A device set, cut down to the ids that the agent may hand out."""

    def __init__(self, devices: DeviceSet, *, ids: frozenset[DeviceId] | None) -> None:
        self._devices = devices
        self._ids = ids

    def discover(self) -> tuple[Device, ...]:
        """Look again. Blocks on the drivers."""
        return self._own(self._devices.discover())

    def known(self) -> Mapping[DeviceId, Device]:
        """What was found last."""
        return {device.id: device for device in self._own(self._devices.devices())}

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """Of all plugins; an agent without a device of a plugin still knows its slots."""
        return self._devices.slot_types()

    def attributes(self) -> Mapping[str, str]:
        return self._devices.attributes()

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        """Measure. Blocks on the drivers."""
        own = self.known()
        return tuple(reading for reading in self._devices.readings(uses) if reading.device_id in own)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        return self._devices.environment(spec)

    def close(self) -> None:
        self._devices.close()

    def _own(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        return tuple(device for device in devices if self._ids is None or device.id in self._ids)
