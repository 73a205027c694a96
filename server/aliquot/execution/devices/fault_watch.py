"""Fault watch: a program that follows the errors of this machine's NVIDIA GPUs, and prints them as lines of JSON.

It runs as a process of its own, because NVML may hang for ever on a broken GPU: its parent notices that the lines
`{"alive": true}`, one a second, stay away, and goes on without it. A fault is `{"device": UUID, "kind": KIND}`, see
`faults.KINDS`. It ends when its standard output is closed, and with code 3 when there is no driver.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from aliquot.execution.devices.faults import Counters, raised
from aliquot.execution.devices.nvml_driver import NvmlDriver, NvmlUnavailable
from aliquot_schema.ids import DeviceId

NO_DRIVER_CODE: Final = 3
WAIT_MS: Final = 500
"""How long one call waits for an event."""
COUNTERS_S: Final = 1.0
"""Between two readings of the counters."""


class FaultWatch:
    """The events and counters of all GPUs."""

    def __init__(self, driver: NvmlDriver) -> None:
        self._driver = driver
        self._handles: dict[DeviceId, Any] = {}
        self._counters: dict[DeviceId, Counters] = {}
        self._events = driver.ask("nvmlEventSetCreate")
        for _, handle in driver.handles():
            uuid = None if handle is None else driver.ask("nvmlDeviceGetUUID", handle)
            if uuid is None:
                continue
            self._handles[DeviceId(uuid)] = handle
            if self._events is not None:
                driver.ask("nvmlDeviceRegisterEvents", handle, driver.nvml.nvmlEventTypeXidCriticalError, self._events)
            self._counters[DeviceId(uuid)] = self._read(handle)

    def events(self) -> Iterator[tuple[DeviceId, str]]:
        """Wait up to `WAIT_MS` for an event; yields (device, kind)."""
        if self._events is None:
            time.sleep(WAIT_MS / 1000)
            return
        event = self._driver.ask("nvmlEventSetWait_v2", self._events, WAIT_MS)
        uuid = None if event is None else self._driver.ask("nvmlDeviceGetUUID", event.device)
        if event is not None and uuid is not None:
            yield DeviceId(uuid), f"xid {event.eventData}"

    def counted(self) -> Iterator[tuple[DeviceId, str]]:
        """Faults that counters show since the last call; yields (device, kind)."""
        for device_id, handle in self._handles.items():
            before, now = self._counters[device_id], self._read(handle)
            self._counters[device_id] = {**before, **now}
            for fault in raised(device_id, before, now):
                yield device_id, fault.kind

    def _read(self, handle: Any) -> Counters:
        driver, nvml = self._driver, self._driver.nvml
        found = {"lost": int(driver.health_fault(handle) is not None)}
        kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        errors = driver.ask("nvmlDeviceGetTotalEccErrors", handle, kind, since)
        if errors is not None:
            found["ecc"] = int(errors)
        rows = driver.ask("nvmlDeviceGetRemappedRows", handle)
        if rows is not None:
            found["row remap"] = int(rows[3])
        reasons = driver.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if reasons is not None:
            found["thermal"] = int(bool(reasons & nvml.nvmlClocksThrottleReasonHwThermalSlowdown))
            found["power"] = int(bool(reasons & nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown))
        errors = [
            driver.ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, counter)
            for link in range(nvml.NVML_NVLINK_MAX_LINKS)
            for counter in (nvml.NVML_NVLINK_ERROR_DL_REPLAY, nvml.NVML_NVLINK_ERROR_DL_RECOVERY)
        ]
        known = [count for count in errors if count is not None]
        return {**found, "nvlink": sum(known)} if known else found


def main() -> int:
    """Print faults until standard output is closed; returns the exit code."""
    try:
        watch = FaultWatch(NvmlDriver())
    except NvmlUnavailable as unavailable:
        _write({"error": str(unavailable)})
        return NO_DRIVER_CODE
    counted_at = time.monotonic()
    while True:
        for device_id, kind in watch.events():
            _write({"device": device_id, "kind": kind})
        if time.monotonic() - counted_at >= COUNTERS_S:
            counted_at = time.monotonic()
            for device_id, kind in watch.counted():
                _write({"device": device_id, "kind": kind})
            _write({"alive": True})


def _write(line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
