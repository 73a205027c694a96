"""The server itself: each tells this of itself, whether it leads or follows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import InfoMetricFamily, Metric

from aliquot.api.metrics.families import counter, gauge, histogram, states
from aliquot.api.metrics.requests import RequestCounts
from aliquot.service.measuring.conditions import Condition
from aliquot.service.measuring.loop_lag import LoopLag
from aliquot.service.measuring.store_counts import StoreMeasures

CODES: Final = (
    "agent_disk_low",
    "history_impaired",
    "database_down",
    "disk_low",
    "event_loop_stalled",
    "leader_unknown",
    "loop_failed",
)
"""Of conditions, in `/readyz` and in the metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """What the HTTP face and the process behind it know of themselves."""

    requests: RequestCounts
    conditions: Callable[[], tuple[Condition, ...]] = tuple
    subscribers: Callable[[], Mapping[str, int]] = dict
    """By transport: `socket`, `stream`."""


def face_families(figures: ServerFigures) -> Iterator[Metric]:
    """What is known of requests, and of the server's health."""
    found = figures.conditions()
    ready = not any(condition.is_fatal for condition in found)
    yield gauge("ready", "1 when this server can serve, as /readyz says.", ready)
    present = dict.fromkeys((condition.code for condition in found), 1.0)
    text = "1 while something is wrong, by its code in /readyz."
    yield states("condition", text, "code", known=CODES, found=present)
    text = "Clients that are told of changes: over WebSockets, and over streams of events."
    yield states("subscribers", text, "transport", known=("socket", "stream"), found=figures.subscribers())
    yield counter("requests", "Requests that were answered, by outcome.", figures.requests.ended)
    text = "How long requests took; what lasts as long as somebody listens is left out."
    yield histogram("request_seconds", text, figures.requests.seconds)


def server_families(*, version: str, leads: bool, revision: int, lag: LoopLag) -> Iterator[Metric]:
    """What is known of the process."""
    yield InfoMetricFamily("aliquot_build", "The version that runs.", {"version": version})
    yield gauge("leader", "1 when this server leads: it decides, launches, and listens to agents.", leads)
    yield gauge("event_number", "The number of the last event that this server has taken in.", revision)
    text = "How much later than asked timers of the event loop fire."
    yield histogram("event_loop_lag_seconds", text, lag.seconds)


def database_families(seen: StoreMeasures) -> Iterator[Metric]:
    """Of the database, as this server sees it."""
    yield gauge("database_up", "1 when the database answers.", seen.is_up)
    text = "How long the database took: commits with their wait for each other, other writes, and reads."
    yield histogram("database_seconds", text, seen.seconds)
    yield counter("database_faults", "What the database could not do.", seen.faults)
