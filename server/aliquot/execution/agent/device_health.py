"""Device health: puts a device with a hardware fault into quarantine, and returns it after a passed check.

Faults come from the watch of NVML, a process of its own, or from a dcgm-exporter. The quarantine is stored in the
agent's folder, so that it survives a restart of the agent.
"""

import asyncio
import json
import logging
import sys
import time
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from aliquot.execution.agent.json_files import FORMAT, read_file, replace_file
from aliquot.execution.devices import fault_watch
from aliquot.execution.devices.faults import Effect, ExporterReadings, Fault
from aliquot.execution.settings import HealthRules
from aliquot_schema.cluster.agents import TOLD_FAULT
from aliquot_schema.ids import DeviceId
from aliquot_schema.resources.devices import Device, DeviceHealth

FILE: Final = "quarantine.json"
RETURN_FILE: Final = "return-devices"
"""Ids of devices that an operator returns, one per line; the agent removes the file."""
RETURNS_MAX: Final = 3
WEEK_S: Final = 7 * 86_400.0
SILENT_S: Final = 10.0
"""Seconds without a line after which the watch is taken to hang in NVML."""
KILLED_S: Final = 1.0
"""How long a killed watch is waited for."""
AGAIN_S: Final = 30.0
"""From the end of a watch to the next one."""
EXPORTER_S: Final = 2.0
CHECK_S: Final = 600.0
"""A check that takes longer has failed."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Quarantined:
    """A device in quarantine, or one that was."""

    fault: str | None
    """None = it has returned."""
    since_s: float
    """Unix time."""
    returns_s: list[float] = field(default_factory=list)
    """When it returned by itself in the last week, Unix time."""

    @property
    def needs_person(self) -> bool:
        """Whether it returned too often to return by itself again."""
        return len(self.returns_s) >= RETURNS_MAX


class Quarantine:
    """The devices in quarantine, stored in a file. Blocks on disk I/O."""

    def __init__(self, folder: Path, *, now_s: Callable[[], float]) -> None:
        self._folder = folder
        self._now_s = now_s
        self._devices: dict[DeviceId, Quarantined] = {}

    def open(self) -> None:
        """Read the stored quarantine; a file that cannot be read is logged and replaced later."""
        try:
            stored = read_file(self._folder / FILE) or {"devices": {}}
            self._devices = msgspec.convert(stored["devices"], dict[DeviceId, Quarantined])
        except (OSError, ValueError, KeyError) as error:
            _log.warning("the quarantine in %s cannot be read: %s", self._folder / FILE, error)

    @property
    def faults(self) -> Mapping[DeviceId, str]:
        """The fault of each device in quarantine, with what is needed for its return."""
        return {
            device_id: f"{one.fault}; it returned {RETURNS_MAX} times in a week and needs a person"
            if one.needs_person
            else one.fault
            for device_id, one in self._devices.items()
            if one.fault is not None
        }

    def add(self, fault: Fault) -> bool:
        """Put a device into quarantine; False if it is there."""
        known = self._devices.get(fault.device_id)
        if known is not None and known.fault is not None:
            return False
        now_s = self._now_s()
        returns = [] if known is None else [at_s for at_s in known.returns_s if now_s - at_s < WEEK_S]
        found = Quarantined(fault=fault.words, since_s=now_s, returns_s=returns)
        self._devices = {**self._devices, fault.device_id: found}  # the event loop may go through the old one now
        self._write()
        return True

    def checkable(self) -> list[DeviceId]:
        """Devices that may return after a check."""
        return [name for name, one in self._devices.items() if one.fault is not None and not one.needs_person]

    def give_back(self, device_id: DeviceId, *, by_person: bool = False) -> bool:
        """Return a device to service; False if it is not in quarantine. A person's return forgets earlier ones."""
        known = self._devices.get(device_id)
        if known is None or known.fault is None:
            return False
        known.fault = None
        known.returns_s = [] if by_person else [*known.returns_s, self._now_s()]
        self._write()
        return True

    def _write(self) -> None:
        try:
            fields = {"format": FORMAT, "devices": msgspec.to_builtins(self._devices)}
            replace_file(self._folder / FILE, fields)
        except OSError as error:
            _log.warning("the quarantine cannot be stored in %s: %s", self._folder / FILE, error)


def with_faults(devices: Iterable[Device], faults: Mapping[DeviceId, str]) -> tuple[tuple[Device, ...], dict[str, str]]:
    """The devices with those in quarantine as unhealthy, and the attributes by which the agent tells why.

    A fault of a GPU is one of its slices too.
    """
    found: list[Device] = []
    labels: dict[str, str] = {}
    for device in devices:
        fault = faults.get(device.id) or (None if device.parent is None else faults.get(device.parent))
        if fault is None or device.health in (DeviceHealth.GONE, DeviceHealth.LEAVING):
            found.append(device)
            continue
        found.append(replace(device, health=DeviceHealth.UNHEALTHY))
        labels |= {f"{TOLD_FAULT}{device.id}": fault, f"{device.name}.trouble": f"in quarantine: {fault}"}
    return tuple(found), labels


class FaultSource(Protocol):
    """Where faults come from."""

    def faults(self) -> AsyncGenerator[Fault, None]:
        """Faults as they occur, until the source fails; it is asked again after `AGAIN_S`."""


class NvmlFaults:
    """Faults from `fault_watch`, run as a process."""

    def __init__(self, *, python: str = sys.executable, silent_s: float = SILENT_S) -> None:
        self._python = python
        self._silent_s = silent_s

    async def faults(self) -> AsyncGenerator[Fault, None]:
        """See `FaultSource`. A watch that hangs is killed, and given up if a system call keeps it alive."""
        process = await asyncio.create_subprocess_exec(
            *(self._python, "-m", fault_watch.__name__),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            while line := await self._next_line(process.stdout):
                said = json.loads(line)
                if "device" in said:
                    yield Fault(device_id=DeviceId(said["device"]), kind=str(said["kind"]))
                elif "error" in said:
                    _log.info("faults of GPUs are not watched: %s", said["error"])
        except TimeoutError:
            _log.warning("the watch of GPU faults has said nothing for %g s: NVML hangs", self._silent_s)
        finally:
            if process.returncode is None:
                process.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(KILLED_S):
                    await process.wait()

    async def _next_line(self, stdout: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self._silent_s):
            return await stdout.readline()


class ExporterFaults:
    """Faults from a dcgm-exporter, which is asked every `EXPORTER_S`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._readings = ExporterReadings()

    async def faults(self) -> AsyncGenerator[Fault, None]:
        """See `FaultSource`."""
        while True:
            try:
                text = await asyncio.to_thread(self._text)
            except (OSError, ValueError) as error:
                _log.warning("dcgm-exporter at %s does not answer: %s", self._url, error)
                return
            for fault in self._readings.read(text):
                yield fault
            await asyncio.sleep(EXPORTER_S)

    def _text(self) -> str:
        with urllib.request.urlopen(self._url, timeout=EXPORTER_S * 2) as answer:
            return str(answer.read().decode("utf-8", "replace"))


class HealthWatch:
    """Follows the faults of one agent's devices, and runs the checks."""

    def __init__(
        self,
        rules: HealthRules,
        *,
        folder: Path,
        held: Callable[[], Collection[DeviceId]],
        source: FaultSource,
    ) -> None:
        """
        Args:
            held: devices held by kernels; a held device is not checked.
        """
        self._rules = rules
        self._folder = folder
        self._held = held
        self._source = source
        self._quarantine = Quarantine(folder, now_s=time.time)
        self._moved = asyncio.Event()

    def open(self) -> None:
        """Read the stored quarantine. Blocks."""
        self._quarantine.open()

    @property
    def faults(self) -> Mapping[DeviceId, str]:
        """The fault of each device in quarantine."""
        return self._quarantine.faults

    async def follow(self, *, tell: Callable[[], Awaitable[None]]) -> None:
        """Follow faults until cancelled; `tell` is called after each change of `faults`."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._watch(tell))
            loops.create_task(self._return(tell))

    async def _watch(self, tell: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                async with aclosing(self._source.faults()) as faults:
                    async for fault in faults:
                        await self._note(fault, tell)
            except (OSError, ValueError) as error:
                _log.warning("faults of devices cannot be followed: %s", error)
            await asyncio.sleep(AGAIN_S)

    async def _note(self, fault: Fault, tell: Callable[[], Awaitable[None]]) -> None:
        if fault.effect is not Effect.QUARANTINE:
            _log.warning("device %s: %s; %s", fault.device_id, fault.words, fault.effect)
        elif await asyncio.to_thread(self._quarantine.add, fault):
            _log.error("device %s is in quarantine: %s", fault.device_id, fault.words)
            await tell()

    async def _return(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Return devices after a passed check, or immediately by an operator's file."""
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(min(self._rules.check_interval_s, EXPORTER_S))
            returned = await asyncio.to_thread(self._returned_by_person)
            if time.monotonic() - checked_at >= self._rules.check_interval_s:
                checked_at = time.monotonic()
                for device_id in self._quarantine.checkable():
                    if device_id not in self._held() and await self._passes(device_id):
                        returned |= await asyncio.to_thread(self._quarantine.give_back, device_id)
                        _log.warning("device %s has passed its check and returns to service", device_id)
            if returned:
                await tell()

    def _returned_by_person(self) -> bool:
        path = self._folder / RETURN_FILE
        try:
            names = path.read_text(encoding="utf-8", errors="replace").split()
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            _log.warning("%s cannot be read, so no device returns to service: %s", path, error)
            return False
        found = [name for name in names if self._quarantine.give_back(DeviceId(name), by_person=True)]
        for name in found:
            _log.warning("device %s was returned to service by an operator", name)
        return bool(found)

    async def _passes(self, device_id: DeviceId) -> bool:
        """Run the check of a device; its id is the last argument of the command."""
        for command in self._rules.checks:
            code = await _exit_code((*command, device_id))
            if code != 0:
                _log.warning("device %s stays in quarantine: %s ended with %s", device_id, " ".join(command), code)
                return False
        return True


async def _exit_code(command: tuple[str, ...]) -> int | None:
    """The exit code of a command; None if it cannot be started, or takes longer than `CHECK_S`."""
    nothing = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError as error:
        _log.warning("the check of a device cannot be started: %s", error)
        return None
    try:
        async with asyncio.timeout(CHECK_S):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
