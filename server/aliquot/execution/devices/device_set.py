"""Device set: all device plugins of one agent combined into one, limited to the agent's part of the node."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.allocation.node_partition import DeviceSelection
from aliquot.execution.devices.plugin import (
    DeviceFileError,
    DeviceGate,
    DevicePlugin,
    DeviceUse,
    DriverPlugin,
    GatingPlugin,
    device_order,
    grant_variables,
    holds_any,
)
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth, DeviceReading, ResourceSpec, reading_fault
from aliquot_schema.resources.slots import SlotType

T = TypeVar("T")
DRIVER_S: Final = 5.0
"""Seconds without an answer after which a driver is taken to hang."""


class DriverHangs(Exception):
    """A driver does not answer; the message says since when."""


class DriverCalls:
    """Calls of one driver, each in a thread of its own with a deadline. While one of them hangs, others fail
    immediately: a hanging call cannot be ended, so it must keep no other thread of the agent."""

    def __init__(self, *, timeout_s: float = DRIVER_S) -> None:
        self._timeout_s = timeout_s
        self._hanging: threading.Thread | None = None

    def run(self, call: Callable[[], T]) -> T:
        """The result of a call.

        Raises:
            DriverHangs: it has not returned in time, or an earlier one has not returned yet.
        """
        if self._hanging is not None and self._hanging.is_alive():
            raise DriverHangs("the driver hangs: an earlier call has not returned")
        done: list[T] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                done.append(call())
            except BaseException as error:  # raised again below
                failed.append(error)

        thread = self._hanging = threading.Thread(target=work, daemon=True, name="driver-call")
        thread.start()
        thread.join(self._timeout_s)
        if thread.is_alive():
            raise DriverHangs(f"the driver hangs: it has not answered for {self._timeout_s:g} s")
        if failed:
            raise failed[0]
        return done[0]


class DevicePartition(Protocol):
    """Selects an agent's devices from those of its node."""

    def of(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """The agent's devices among all devices discovered now."""


class FixedDevices(Struct, frozen=True):
    """The devices assigned to an agent when its node was divided; fixed while the agent runs.

    Devices discovered later stay unassigned until the node is divided at the next start: if each agent divided the
    node again by itself, two agents could claim the same device.
    """

    own: tuple[Device, ...]
    """Whole devices, and pieces of split devices."""

    def of(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """Whole devices in their current state; pieces with the health of the device they are part of."""
        found = {device.id: device for device in devices}
        present = (_as_found(device, found) for device in self.own)
        return tuple(device for device in present if device is not None)


def _as_found(own: Device, found: Mapping[DeviceId, Device]) -> Device | None:
    if own.id in found:
        return found[own.id]
    source = found.get(own.parent) if own.parent is not None else None
    return None if source is None else replace(own, health=source.health)


_EVERYTHING: Final = DeviceSelection()

_log = logging.getLogger(__name__)


class DeviceSet:
    """The plugins of one agent as one `DevicePlugin`.

    A device that was reported once stays in the result: as `gone` when its plugin stops reporting it, as `unhealthy`
    while its plugin fails. A failing plugin does not affect the others. A held device of an earlier run that is no
    longer configured is reported as `leaving`, see `recall`.
    """

    kind = "set"

    def __init__(
        self,
        plugins: Sequence[DevicePlugin],
        *,
        part: DevicePartition = _EVERYTHING,
        driver_timeout_s: float = DRIVER_S,
    ) -> None:
        """Combine plugins of different kinds.

        Args:
            part: selects the agent's devices; the others are discovered but never reported.
            driver_timeout_s: a driver that takes longer to answer counts as failed.
        Raises:
            DeviceFileError: two plugins have the same kind.
        """
        self._plugins = tuple(plugins)
        self._part = part
        self._known: dict[str, dict[DeviceId, Device]] = {}
        self._devices: tuple[Device, ...] = ()
        self._former: dict[DeviceId, Device] = {}
        self._answered: set[str] = set()
        self._failures: dict[str, str] = {}
        self._omitted: dict[str, str | None] = {}
        """Plugin kind -> why its last reading was omitted, or None."""
        self._turns = {plugin.kind: threading.Lock() for plugin in self._plugins}
        self._calls = {
            plugin.kind: DriverCalls(timeout_s=driver_timeout_s)
            for plugin in self._plugins
            if isinstance(plugin, DriverPlugin)
        }
        for plugin in self._plugins:
            if plugin.kind in self._known:
                raise DeviceFileError(f"two device plugins of one agent have the kind {plugin.kind!r}")
            self._known[plugin.kind] = {}

    @property
    def failures(self) -> Mapping[str, str]:
        """Plugin kind -> error message of its last call; only plugins that failed."""
        return self._failures

    @property
    def has_driver(self) -> bool:
        """Whether a driver answered the last `discover`."""
        return any(isinstance(plugin, DriverPlugin) and plugin.has_driver for plugin in self._plugins)

    def recall(self, devices: Iterable[Device]) -> None:
        """Set the devices of the agent's previous run; `discover` reports those that are still held."""
        self._former = {device.id: device for device in devices}

    def discover(self, *, held: Collection[DeviceId] = ()) -> tuple[Device, ...]:
        """Discover all devices again; in natural order of names.

        Args:
            held: devices held by kernels of the agent.
        Raises:
            DeviceFileError: a plugin rejects its configuration at its first call, or two plugins report the same id.
        """
        owner: dict[DeviceId, str] = {}
        for plugin in self._plugins:
            self._known[plugin.kind] = known = self._discovered(plugin)
            for device in known.values():
                other = owner.setdefault(device.id, plugin.kind)
                if other != plugin.kind:
                    raise DeviceFileError(f"device {device.id} is reported by two plugins: {other} and {plugin.kind}")
        found = (device for known in self._known.values() for device in known.values())
        own = self._part.of(sorted(found, key=device_order))
        self._devices = tuple(sorted((*own, *self._missing(own, held=held, found=owner)), key=device_order))
        return self._devices

    def devices(self) -> tuple[Device, ...]:
        """Result of the last `discover`; calls no plugin."""
        return self._devices

    def known(self) -> Mapping[DeviceId, Device]:
        """`devices` by id."""
        return {device.id: device for device in self._devices}

    def slot_types(self) -> Mapping[SlotName, SlotType]:
        """The slots of all plugins, also of those without devices."""
        return {slot: kind for plugin in self._plugins for slot, kind in plugin.slot_types().items()}

    def attributes(self) -> Mapping[str, str]:
        """The attributes of all plugins; on equal names the first plugin wins."""
        return {name: text for plugin in reversed(self._plugins) for name, text in plugin.attributes().items()}

    def readings(self, uses: Sequence[DeviceUse]) -> tuple[DeviceReading, ...]:
        """Measure every device of the agent now; readings of failing plugins are omitted."""
        readings: list[DeviceReading] = []
        known = self.known()
        for plugin in self._plugins:
            own = [use for use in uses if use.device_id in self._known[plugin.kind]]
            try:
                measured = [
                    reading
                    for reading in self._call(plugin, partial(plugin.readings, own))
                    if reading.device_id in known
                ]
                faults = {reading.device_id: reading_fault(reading) for reading in measured}
                readings.extend(reading for reading in measured if faults[reading.device_id] is None)
                self._record_omission(plugin.kind, next(filter(None, faults.values()), None))
            except Exception as error:
                self._record_failure(plugin.kind, error)
        return tuple(readings)

    def environment(self, spec: ResourceSpec) -> Mapping[str, str]:
        """The environment variables of all plugins, and each accelerator's share and memory.

        If two plugins set the same variable, the plugin with devices in the spec wins.
        """
        ordered = sorted(self._plugins, key=lambda plugin: holds_any(spec, self._known[plugin.kind]))
        variables = {name: text for plugin in ordered for name, text in plugin.environment(spec).items()}
        return variables | grant_variables(spec, self._devices)

    def gates(self, spec: ResourceSpec) -> tuple[DeviceGate, ...]:
        """Device file access rules for a kernel that holds `spec`.

        Empty when one plugin cannot separate its devices: partial rules would protect nothing.
        """
        gating = [plugin for plugin in self._plugins if isinstance(plugin, GatingPlugin) and self._known[plugin.kind]]
        gates = [plugin.gate(spec) for plugin in gating]
        return tuple(gate for gate in gates if gate is not None) if None not in gates else ()

    def close(self) -> None:
        """Release every driver."""
        for plugin in self._plugins:
            try:
                plugin.close()
            except Exception as error:
                self._record_failure(plugin.kind, error)

    def _discovered(self, plugin: DevicePlugin) -> dict[DeviceId, Device]:
        known = self._known[plugin.kind]
        try:
            found = {device.id: device for device in self._call(plugin, plugin.discover)}
        except Exception as error:
            if isinstance(error, DeviceFileError) and plugin.kind not in self._answered:
                raise
            self._record_failure(plugin.kind, error)
            return {id: replace(device, health=DeviceHealth.UNHEALTHY) for id, device in known.items()}
        self._answered.add(plugin.kind)
        self._failures.pop(plugin.kind, None)
        lost = {id: replace(device, health=DeviceHealth.GONE) for id, device in known.items() if id not in found}
        return found | lost

    def _call(self, plugin: DevicePlugin, call: Callable[[], T]) -> T:
        """Call a plugin, from one thread at a time; one with a driver has a deadline."""
        with self._turns[plugin.kind]:
            return self._calls[plugin.kind].run(call) if plugin.kind in self._calls else call()

    def _missing(
        self, own: Sequence[Device], *, held: Collection[DeviceId], found: Collection[DeviceId]
    ) -> list[Device]:
        """Held devices of an earlier run that are not among the agent's devices now."""
        present = {device.id for device in own}
        former = (self._former[id] for id in held if id in self._former and id not in present)
        return [replace(device, health=self._health_of_missing(device, found=found)) for device in former]

    def _health_of_missing(self, device: Device, *, found: Collection[DeviceId]) -> DeviceHealth:
        """`leaving` if the device is no longer configured; `gone` or `unhealthy` if its plugin or driver fails."""
        plugin = next((plugin for plugin in self._plugins if plugin.kind == device.kind), None)
        if device.id in found or plugin is None:
            return DeviceHealth.LEAVING
        if plugin.kind in self._failures:
            return DeviceHealth.UNHEALTHY
        if isinstance(plugin, DriverPlugin):
            return DeviceHealth.GONE if plugin.has_driver else DeviceHealth.UNHEALTHY
        return DeviceHealth.LEAVING

    def _record_failure(self, kind: str, error: Exception) -> None:
        """Third-party plugins may raise any exception; each is logged once until it changes."""
        message = f"{type(error).__name__}: {error}"
        if self._failures.get(kind) != message:
            _log.warning("device plugin %s failed: %s", kind, message)
        self._failures[kind] = message

    def _record_omission(self, kind: str, fault: str | None) -> None:
        """A failing driver may report 4,294,967 W: such readings are omitted, and the first of a series is logged."""
        if fault is not None and self._omitted.get(kind) is None:
            _log.warning("device plugin %s: reading omitted: %s", kind, fault)
        self._omitted[kind] = fault


def changed(before: Sequence[Device], after: Sequence[Device]) -> tuple[Device, ...]:
    """The devices of `after` that are not in `before` or differ from it in any field."""
    known = {device.id: device for device in before}
    return tuple(device for device in after if known.get(device.id) != device)
