"""Hardware faults of GPUs: which kinds there are, and which of them put a device into quarantine.

Source: NVIDIA, Xid Errors (docs.nvidia.com/deploy/xid-errors), and GPU Memory Error Management
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt); DCGM field identifiers for the names of the exporter's metrics.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from aliquot_schema.ids import DeviceId


class Effect(StrEnum):
    """What a fault means for its device."""

    QUARANTINE = "quarantine"
    """The device takes nothing new, and its sessions leave it."""
    REPORT = "report"
    """It is logged; the device stays in service."""
    APPLICATION = "application"
    """A fault of the program that used the device."""


class Fault(Struct, frozen=True, kw_only=True):
    """A fault of one device."""

    device_id: DeviceId
    kind: str
    """A key of `KINDS`, or `xid N` for a number that is not in it."""

    @property
    def effect(self) -> Effect:
        """What it means; numbers that are not in the table are only reported."""
        return KINDS[self.kind][0] if self.kind in KINDS else Effect.REPORT

    @property
    def words(self) -> str:
        """The fault for a person: `XID 79 (the GPU has fallen off the bus)`."""
        name = self.kind.replace("xid", "XID")
        return f"{name} ({KINDS[self.kind][1]})" if self.kind in KINDS else f"{name} (unknown)"


Q, R, A = Effect.QUARANTINE, Effect.REPORT, Effect.APPLICATION
KINDS: Final[Mapping[str, tuple[Effect, str]]] = {
    "xid 13": (A, "graphics engine exception of the program"),
    "xid 31": (A, "memory page fault of the program"),
    "xid 43": (A, "the GPU stopped processing for the program"),
    "xid 45": (A, "preemptive cleanup after an error of the program"),
    "xid 94": (A, "contained ECC error; the program has to be started again"),
    "xid 48": (Q, "double-bit ECC error"),
    "xid 62": (Q, "internal micro-controller halt"),
    "xid 63": (R, "a memory repair was recorded; it takes effect with the next reset"),
    "xid 64": (Q, "a memory repair could not be recorded"),
    "xid 74": (Q, "NVLink error"),
    "xid 79": (Q, "the GPU has fallen off the bus"),
    "xid 92": (R, "high rate of single-bit ECC errors"),
    "xid 95": (Q, "uncontained ECC error"),
    "xid 109": (R, "context switch timeout"),
    "xid 119": (Q, "the GPU's system processor does not answer"),
    "xid 120": (Q, "error of the GPU's system processor"),
    "xid 140": (Q, "unrecovered ECC error"),
    "xid 143": (Q, "the GPU could not be initialised"),
    "xid 154": (Q, "the GPU asks for a reset or a reboot"),
    "lost": (Q, "the driver has lost the GPU, or the GPU needs a reset"),
    "ecc": (Q, "uncorrectable ECC errors"),
    "row remap": (Q, "a memory row could not be remapped"),
    "thermal": (R, "hardware thermal slowdown"),
    "power": (R, "hardware power brake slowdown"),
    "nvlink": (R, "NVLink replay or recovery errors"),
}
"""By kind: the effect, and its meaning."""

Counters = Mapping[str, int]
"""By kind: a counter or a flag that only a fault raises."""


def raised(device_id: DeviceId, before: Counters, now: Counters) -> Iterator[Fault]:
    """A fault of each kind whose counter has grown. Kinds without an earlier value are only noted."""
    for kind, value in now.items():
        if kind in before and value > before[kind]:
            yield Fault(device_id=device_id, kind=kind)


_METRIC: Final = re.compile(r"^(\w+)\{([^}]*)\}\s+([0-9.eE+-]+)$", re.MULTILINE)
_UUID: Final = re.compile(r'UUID="([^"]+)"')
_COUNTERS: Final = {
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "row remap",
    "DCGM_FI_DEV_THERMAL_VIOLATION": "thermal",
    "DCGM_FI_DEV_POWER_VIOLATION": "power",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "nvlink",
}
_XID: Final = "DCGM_FI_DEV_XID_ERRORS"


class ExporterReadings:
    """Faults from the successive texts of a dcgm-exporter. The first text is the baseline: it may hold old faults."""

    def __init__(self) -> None:
        self._before: dict[DeviceId, Counters] | None = None

    def read(self, text: str) -> list[Fault]:
        """The faults that are new in a text of metrics."""
        now: dict[DeviceId, dict[str, int]] = {}
        xids: dict[DeviceId, int] = {}
        for name, labels, value in _METRIC.findall(text):
            uuid = _UUID.search(labels)
            if uuid is None:
                continue
            device_id = DeviceId(uuid[1])
            if name == _XID:
                xids[device_id] = int(float(value))
            elif name in _COUNTERS:
                now.setdefault(device_id, {})[_COUNTERS[name]] = int(float(value))
        for device_id, number in xids.items():
            now.setdefault(device_id, {})["last xid"] = number
        before, self._before = self._before, dict(now)
        return [] if before is None else list(_news(before, now))


def _news(before: Mapping[DeviceId, Counters], now: Mapping[DeviceId, Counters]) -> Iterator[Fault]:
    for device_id, counters in now.items():
        known = dict(before.get(device_id, {}))
        last, current = known.pop("last xid", 0), counters.get("last xid", 0)
        if current and current != last:
            yield Fault(device_id=device_id, kind=f"xid {current}")
        yield from raised(device_id, known, counters)
