"""Metric families of the server itself, exported by leaders and followers, and constructors for gauges."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from prometheus_client.core import (
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

from aliquot.api.metrics.request_counts import RequestCounts
from aliquot.service.metrics.counters import StoreMeasures
from aliquot.service.metrics.health import Availability, HealthCondition, LoopLag

CODES: Final = (
    "agent_disk_low",
    "certificate_expiring",
    "clock_differs",
    "history_impaired",
    "database_down",
    "disk_low",
    "event_loop_stalled",
    "leader_unknown",
    "loop_failed",
)
"""Codes of health conditions, in `/readyz` and in the metrics."""


def gauge(name: str, text: str, value: float) -> Metric:
    """One value that may fall."""
    return GaugeMetricFamily(f"aliquot_{name}", text, value=value)


def gauges(name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Metric:
    """Values that may fall, by label values."""
    family = GaugeMetricFamily(f"aliquot_{name}", text, labels=labels)
    for shown, value in values.items():
        family.add_metric(shown, value)
    return family


def states(name: str, text: str, label: str, *, known: Iterable[str], found: Mapping[str, float]) -> Metric:
    """Numbers per state of a closed list; 0 for states without any."""
    return gauges(name, text, (label,), {(state,): found.get(state, 0) for state in known})


class ServerFigures(Struct, frozen=True, kw_only=True):
    """Values of the HTTP API and its process."""

    requests: RequestCounts
    conditions: Callable[[], tuple[HealthCondition, ...]] = tuple
    subscribers: Callable[[], Mapping[str, int]] = dict
    """By transport: `socket`, `stream`."""


def api_families(figures: ServerFigures) -> Iterator[Metric]:
    """Requests and health of the server."""
    found = figures.conditions()
    ready = not any(condition.is_fatal for condition in found)
    yield gauge("ready", "1 when this server can serve, like /readyz.", ready)
    present = dict.fromkeys((condition.code for condition in found), 1.0)
    text = "1 while a health condition holds, by its code in /readyz."
    yield states("condition", text, "code", known=CODES, found=present)
    text = "Subscribed clients, by transport: WebSockets and event streams."
    yield states("subscribers", text, "transport", known=("socket", "stream"), found=figures.subscribers())
    yield from figures.requests.ended.collect()
    yield from figures.requests.seconds.collect()


def availability_families(found: Availability) -> Iterator[Metric]:
    """How much of its time this server could serve."""
    yield gauge(
        "available_ratio", "Share of the time since the start of this server in which /readyz was 200.", found.ratio()
    )
    yield from found.seconds.collect()


def server_families(*, version: str, leads: bool, revision: int, lag: LoopLag) -> Iterator[Metric]:
    """The process."""
    yield InfoMetricFamily("aliquot_build", "The running version.", {"version": version})
    yield gauge("leader", "1 when this server leads: it schedules, launches and has the connections of agents.", leads)
    yield gauge("event_number", "The number of the last event that this server has applied.", revision)
    yield from lag.seconds.collect()


def database_families(seen: StoreMeasures) -> Iterator[Metric]:
    """The database, as this server sees it."""
    yield gauge("database_up", "1 when the database answers.", seen.is_up)
    yield from seen.seconds.collect()
    yield from seen.faults.collect()
