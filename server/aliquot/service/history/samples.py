"""Samples: what is handed from the event loop to the thread that keeps history."""

from dataclasses import dataclass
from typing import Final

from aliquot_schema.ids import AgentId, DeviceId, NodeId

QUEUE_EVERY_S: Final = 10.0
"""Between two samples of the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The accelerators of an agent; made again when they change."""

    agent_id: AgentId
    node_id: NodeId
    device_ids: tuple[DeviceId, ...]
    counted: tuple[bool, ...]
    """Whether each is one of the cluster's GPUs: healthy, and no slice of one that is there itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """One reading of every accelerator of an agent."""

    roster: Roster
    at_us: int
    values: tuple[tuple[float | None, ...], ...]
    """Devices x `DEVICE_MEASURES`; None = not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSample:
    """The queue at one moment, and what happened since the sample before."""

    at_us: int
    pending: int
    running: int
    submitted: int
    started: int
    ended: int
    waited_s: float
    """Of those started, together."""


Sample = DeviceSample | QueueSample
