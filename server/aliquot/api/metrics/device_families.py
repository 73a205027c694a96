"""Devices: how each accelerator is, and how much of it is held. Eight thousand of them make 88,000 samples, so each has
one mapping of labels that all its samples share."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from aliquot.api.metrics.physical_devices import Part
from aliquot.service.measuring.device_time import DeviceTime
from aliquot_schema.devices import DeviceHealth, DeviceReading

LABELS: Final = ("node", "agent", "device", "model")

_SECONDS: Final = "Counted by the server that leads, from the beginning of its term."


@dataclass(frozen=True, slots=True)
class _Shown:
    part: Part
    labels: dict[str, str]


def device_families(parts: tuple[Part, ...], spent: DeviceTime) -> Iterator[Metric]:
    """All families of devices."""
    shown = [_Shown(part, _labels(part)) for part in parts]
    for name, text, of in _MEASURED:
        yield _family(name, text, "gauge", ((item, of(item.part)) for item in shown))
    times = [(item, spent.of(item.part.agent_id, item.part.device.id)) for item in shown]
    text = f"Seconds that the device was held, times the part that was. {_SECONDS}"
    yield _family("held_seconds", text, "counter", ((item, time.held) for item, time in times))
    text = f"Seconds that the device was used while it was held, times its utilisation, up to what was held. {_SECONDS}"
    yield _family("used_seconds", text, "counter", ((item, time.used) for item, time in times))
    text = f"Seconds that the device was idle although somebody held a part of it. {_SECONDS}"
    yield _family("idle_held_seconds", text, "counter", ((item, time.idle) for item, time in times))


def _labels(part: Part) -> dict[str, str]:
    values = (part.node_id, part.agent_id, part.device.id, part.device.model)
    return dict(zip(LABELS, values, strict=True))


def _family(name: str, text: str, kind: str, values: Iterable[tuple[_Shown, float | None]]) -> Metric:
    family = Metric(f"aliquot_device_{name}", text, kind)
    sample_name = f"{family.name}_total" if kind == "counter" else family.name
    family.samples = [Sample(sample_name, item.labels, value) for item, value in values if value is not None]
    return family


def _read(of: Callable[[DeviceReading], float | None]) -> Callable[[Part], float | None]:
    return lambda part: None if part.reading is None else of(part.reading)


def _ratio(reading: DeviceReading) -> float | None:
    return None if reading.utilization_pct is None else reading.utilization_pct / 100


_MEASURED: Final[tuple[tuple[str, str, Callable[[Part], float | None]], ...]] = (
    ("utilization_ratio", "How much of the time the device was busy when it was last measured, 0 to 1.", _read(_ratio)),
    ("memory_used_bytes", "Memory of the device in use.", _read(lambda reading: reading.memory_used_bytes)),
    ("memory_bytes", "Memory of the device.", lambda part: part.device.memory_bytes),
    ("temperature_celsius", "Temperature of the device.", _read(lambda reading: reading.temperature_c)),
    ("power_watts", "Power that the device draws.", _read(lambda reading: reading.power_w)),
    ("held_ratio", "The part of the device that somebody holds, 0 to 1.", lambda part: part.held),
    (
        "healthy",
        "1 when the device may be given to somebody new, as far as it is itself concerned.",
        lambda part: part.device.health is DeviceHealth.HEALTHY,
    ),
    (
        "blocked",
        "1 when processes of others use the device, so that it is given to nobody.",
        lambda part: part.is_blocked,
    ),
)
"""A device that cannot tell has no sample."""
