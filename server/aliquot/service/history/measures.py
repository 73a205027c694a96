"""Measures: the metrics that history records, their precision, and the samples that carry them."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from aliquot_schema.ids import AgentId, DeviceId, NodeId

WHOLE: Final = ""
"""The device id of series that are not about a device."""
QUEUE_EVERY_S: Final = 10.0
"""Interval between samples of the queue."""


class MeasureKind(StrEnum):
    """Kind of a series."""

    DEVICES = "devices"
    """The accelerators of one agent."""
    QUEUE = "queue"
    """The whole cluster."""


class Measure(Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    unit: str
    quantum: float
    """Values and means are stored as whole multiples of it."""
    is_sum: bool = False
    """Whether it counts events since the previous sample: it adds up and has no mean or maximum."""


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
MEASURES: Final = {MeasureKind.DEVICES: DEVICE_MEASURES, MeasureKind.QUEUE: QUEUE_MEASURES}
"""Stored blocks keep this order; new measures go to the end."""


def index_of(kind: MeasureKind, name: str) -> int:
    """Position of a measure among those of its kind."""
    return next(index for index, measure in enumerate(MEASURES[kind]) if measure.name == name)


class AgentDevices(Struct, frozen=True, kw_only=True):
    """The accelerators of an agent; replaced when they change."""

    agent_id: AgentId
    node_id: NodeId
    device_ids: tuple[DeviceId, ...]
    counted: tuple[bool, ...]
    """Per device, whether it counts as one of the cluster's GPUs: healthy, and not a slice of a listed one."""


class DeviceSample(Struct, frozen=True, kw_only=True):
    """One reading of every accelerator of an agent."""

    roster: AgentDevices
    at_us: int
    values: tuple[tuple[float | None, ...], ...]
    """Devices x `DEVICE_MEASURES`; None = not measured."""


class QueueSample(Struct, frozen=True, kw_only=True):
    """The queue at one moment, and counts since the previous sample."""

    at_us: int
    pending: int
    running: int
    submitted: int
    started: int
    ended: int
    waited_s: float
    """Sum over the started sessions."""


Sample = DeviceSample | QueueSample
