"""Selection: which devices of a node Aliquot has, and which are kept out of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from aliquot.core.allocation.partition import PartitionRefused
from aliquot_schema.devices import Device
from aliquot_schema.ids import DeviceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Names (`cuda0`) or ids of devices. The id of a whole device stands for its slices too."""

    include: frozenset[str] = frozenset()
    """Of a kind that is named here, these alone are taken; of other kinds all are."""
    exclude: frozenset[str] = frozenset()

    def of(self, devices: Iterable[Device]) -> tuple[Device, ...]:
        """The devices that are taken, in the order in which they come."""
        devices = tuple(devices)
        wanted = _named(devices, self.include)
        unwanted = _named(devices, self.exclude)
        narrowed = {device.kind for device in devices if device.id in wanted}
        return tuple(
            device
            for device in devices
            if device.id not in unwanted and (device.id in wanted or device.kind not in narrowed)
        )

    def check(self, devices: Iterable[Device]) -> None:
        """Whether all that is named is there.

        Raises:
            PartitionRefused: something is not; the message lists what there is.
        """
        devices = tuple(devices)
        known = {text for device in devices for text in (device.name, device.id, device.parent)}
        for what, texts in (("include", self.include), ("exclude", self.exclude)):
            unknown = sorted(texts - known)
            if unknown:
                listed = ", ".join(device.name for device in devices)
                raise PartitionRefused(f"devices.{what}: there is no device {', '.join(unknown)}; there are {listed}")


def _named(devices: Iterable[Device], texts: frozenset[str]) -> set[DeviceId]:
    """Ids of what is named, and of the slices of what is named."""
    devices = tuple(devices)
    named = {device.id for device in devices if device.name in texts or device.id in texts}
    return named | {device.id for device in devices if device.parent in named or device.parent in texts}
