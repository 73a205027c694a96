"""All device plugins of one agent behind the face of one."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from aliquot.core.allocation.selection import Selection
from aliquot.execution.devices.grant import device_order, grant_variables, holds_any
from aliquot.execution.devices.part import Part
from aliquot.execution.devices.plugin import DeviceFileError, DeviceGate, DevicePlugin, DeviceUse, GatingPlugin
from aliquot_schema.devices import Device, DeviceHealth, DeviceReading, ResourceSpec
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.slots import SlotType

_EVERYTHING: Final = Selection()

_log = logging.getLogger(__name__)


class DeviceSet:
    """The plugins of one agent as one `DevicePlugin`.

    A device that was reported once stays in the answer: `gone` when its plugin no longer reports it, `unhealthy`
    while its plugin fails. A plugin that fails never takes the others with it.
    """

    kind = "set"

    def __init__(self, plugins: Sequence[DevicePlugin], *, part: Part = _EVERYTHING) -> None:
        """Join plugins of different kinds.

        Args:
            part: what of all this is the agent's; the rest is known here, but never told of.
        Raises:
            DeviceFileError: two plugins have the same kind.
        """
        self._plugins = tuple(plugins)
        self._part = part
        self._known: dict[str, dict[DeviceId, Device]] = {}
        self._devices: tuple[Device, ...] = ()
        self._answered: set[str] = set()
        self._failures: dict[str, str] = {}
        for plugin in self._plugins:
            if plugin.kind in self._known:
                raise DeviceFileError(f"two device plugins of one agent are of the kind {plugin.kind!r}")
            self._known[plugin.kind] = {}

    @property
    def failures(self) -> Mapping[str, str]:
        """Why plugins failed when they were last asked, by kind, in words; empty when all is well."""
        return self._failures

    def discover(self) -> tuple[Device, ...]:
        """Look at every device again. Natural order of names.

        Raises:
            DeviceFileError: a plugin that never answered refuses its configuration, or two plugins report one id.
        """
        owner: dict[DeviceId, str] = {}
        for plugin in self._plugins:
            self._known[plugin.kind] = known = self._look_at(plugin)
            for device in known.values():
                other = owner.setdefault(device.id, plugin.kind)
                if other != plugin.kind:
                    raise DeviceFileError(f"device {device.id} is reported by two plugins: {other} and {plugin.kind}")
        found = (device for known in self._known.values() for device in known.values())
        self._devices = tuple(sorted(self._part.of(sorted(found, key=device_order)), key=device_order))
        return self._devices

    def devices(self) -> tuple[Device, ...]:
        """What `discover` answered last; nothing is asked."""
        return self._devices

    def known(self) -> Mapping[DeviceId, Device]:
        """The same, by id."""
        return {device.id: device for device in self._devices}

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """The slots of all plugins, devices or not."""
        return {slot: kind for plugin in self._plugins for slot, kind in plugin.slot_types().items()}

    def attributes(self) -> Mapping[str, str]:
        """The attributes of all plugins; where two name the same, the first plugin's."""
        return {name: text for plugin in reversed(self._plugins) for name, text in plugin.attributes().items()}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        """Measure every device of the agent now; a plugin that fails is left out."""
        readings: list[DeviceReading] = []
        known = self.known()
        for plugin in self._plugins:
            own = [use for use in uses if use.device_id in self._known[plugin.kind]]
            try:
                readings.extend(reading for reading in plugin.readings(own) if reading.device_id in known)
            except Exception as error:
                self._note(plugin.kind, error)
        return tuple(readings)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """The variables of all plugins, and each accelerator's share and memory.

        Where two plugins set the same variable, the one that has devices in the spec decides.
        """
        ordered = sorted(self._plugins, key=lambda plugin: holds_any(spec, self._known[plugin.kind]))
        variables = {name: text for plugin in ordered for name, text in plugin.environment(spec).items()}
        return variables | grant_variables(spec, self._devices)

    def gates(self, spec: ResourceSpec) -> tuple[DeviceGate, ...]:
        """What a kernel may open of the device files of each plugin that has some; nothing when one of them cannot
        tell its devices apart: half a gate is none."""
        gating = [plugin for plugin in self._plugins if isinstance(plugin, GatingPlugin) and self._known[plugin.kind]]
        gates = [plugin.gate(spec) for plugin in gating]
        return tuple(gate for gate in gates if gate is not None) if None not in gates else ()

    def close(self) -> None:
        """Let go of every driver."""
        for plugin in self._plugins:
            try:
                plugin.close()
            except Exception as error:
                self._note(plugin.kind, error)

    def _look_at(self, plugin: DevicePlugin) -> dict[DeviceId, Device]:
        known = self._known[plugin.kind]
        try:
            found = {device.id: device for device in plugin.discover()}
        except Exception as error:
            if isinstance(error, DeviceFileError) and plugin.kind not in self._answered:
                raise
            self._note(plugin.kind, error)
            return {id: replace(device, health=DeviceHealth.UNHEALTHY) for id, device in known.items()}
        self._answered.add(plugin.kind)
        self._failures.pop(plugin.kind, None)
        lost = {id: replace(device, health=DeviceHealth.GONE) for id, device in known.items() if id not in found}
        return found | lost

    def _note(self, kind: str, error: Exception) -> None:
        """Plugins out of the tree may raise anything; it is logged once for as long as it stays the same."""
        words = f"{type(error).__name__}: {error}"
        if self._failures.get(kind) != words:
            _log.warning("device plugin %s failed: %s", kind, words)
        self._failures[kind] = words


def changed(before: Sequence[Device], after: Sequence[Device]) -> tuple[Device, ...]:
    """The devices of `after` that are new or differ from `before`: another health, memory, link, ..."""
    known = {device.id: device for device in before}
    return tuple(device for device in after if known.get(device.id) != device)
