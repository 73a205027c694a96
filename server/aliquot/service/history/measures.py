"""What is measured, and to which step it is kept."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a series is about."""

    DEVICES = "devices"
    """The accelerators of one agent."""
    QUEUE = "queue"
    """The cluster as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number that is followed."""

    name: str
    unit: str
    quantum: float
    """Kept to a whole number of these; means too."""
    is_sum: bool = False
    """Whether it counts what happened since the sample before: it adds up, instead of having a mean and a maximum."""


DEVICE_MEASURES: Final = (
    Measure(name="utilization", unit="percent", quantum=0.5),
    Measure(name="memory_used", unit="bytes", quantum=2**20),
    Measure(name="temperature", unit="celsius", quantum=0.5),
    Measure(name="power", unit="watts", quantum=1.0),
    Measure(name="held", unit="milli", quantum=1.0),
)
QUEUE_MEASURES: Final = (
    Measure(name="pending", unit="tasks", quantum=0.1),
    Measure(name="running", unit="sessions", quantum=0.1),
    Measure(name="submitted", unit="tasks", quantum=1.0, is_sum=True),
    Measure(name="started", unit="sessions", quantum=1.0, is_sum=True),
    Measure(name="ended", unit="sessions", quantum=1.0, is_sum=True),
    Measure(name="waited", unit="seconds", quantum=0.1, is_sum=True),
    Measure(name="gpus_total", unit="gpus", quantum=0.01),
    Measure(name="gpus_held", unit="gpus", quantum=0.01),
    Measure(name="gpus_held_idle", unit="gpus", quantum=0.01),
)
MEASURES: Final = {Kind.DEVICES: DEVICE_MEASURES, Kind.QUEUE: QUEUE_MEASURES}
"""A stored block holds them in this order; a new one goes to the end."""
WHOLE: Final = ""
"""Stands for the device where a series is about none."""


def index_of(kind: Kind, name: str) -> int:
    """Where a measure is in its kind's order."""
    return next(index for index, measure in enumerate(MEASURES[kind]) if measure.name == name)
