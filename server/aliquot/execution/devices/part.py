"""Which of a node's devices an agent sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from aliquot_schema.devices import Device
from aliquot_schema.ids import DeviceId


class Part(Protocol):
    """Cuts what is found on a node down to what is an agent's."""

    def of(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """The agent's devices, of all that are found now."""


@dataclass(frozen=True, slots=True)
class FixedPart:
    """The devices that an agent was given when its node was divided: the same ones for as long as it runs.

    What is found later belongs to nobody until the node is divided anew, at the next start: agents that divided it
    each for itself could both take it.
    """

    own: tuple[Device, ...]
    """Whole devices, and pieces of those that were cut."""

    def of(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """Whole devices as they are now; pieces with the health of what they are cut from."""
        found = {device.id: device for device in devices}
        present = (_as_found(device, found) for device in self.own)
        return tuple(device for device in present if device is not None)


def _as_found(own: Device, found: Mapping[DeviceId, Device]) -> Device | None:
    if own.id in found:
        return found[own.id]
    source = found.get(own.parent) if own.parent is not None else None
    return None if source is None else replace(own, health=source.health)
