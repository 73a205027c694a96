"""The cluster's GPUs together, from the newest sample of every agent."""

from dataclasses import dataclass
from math import nan
from typing import Final

from aliquot.service.history.measures import Kind, index_of
from aliquot.service.history.samples import DeviceSample
from aliquot.service.measuring.device_time import IDLE_PCT
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.slots import MILLI

OLD_US: Final = 60_000_000
"""An agent that said nothing for so long is not counted."""
_UTILIZATION: Final = index_of(Kind.DEVICES, "utilization")
_HELD: Final = index_of(Kind.DEVICES, "held")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSums:
    """In GPUs; a part of one counts as that part."""

    total: float
    held: float
    held_idle: float
    """Held, while the device does nothing."""


class ClusterSums:
    """A device that several agents of a node see counts once."""

    def __init__(self) -> None:
        self._newest: dict[AgentId, DeviceSample] = {}

    def note(self, sample: DeviceSample) -> None:
        """An agent was measured."""
        self._newest[sample.roster.agent_id] = sample

    def at(self, now_us: int) -> GpuSums:
        """All of them now, NaN when nobody says anything; who is silent is forgotten."""
        self._newest = {name: one for name, one in self._newest.items() if now_us - one.at_us < OLD_US}
        if not self._newest:
            return GpuSums(total=nan, held=nan, held_idle=nan)
        seen: dict[tuple[NodeId, DeviceId], tuple[float, bool]] = {}
        for sample in self._newest.values():
            roster = sample.roster
            for device_id, counted, values in zip(roster.device_ids, roster.counted, sample.values, strict=True):
                if counted:
                    load = values[_UTILIZATION]
                    seen[roster.node_id, device_id] = (values[_HELD] or 0.0, load is not None and load < IDLE_PCT)
        return GpuSums(
            total=float(len(seen)),
            held=sum(held for held, _ in seen.values()) / MILLI,
            held_idle=sum(held for held, is_idle in seen.values() if is_idle) / MILLI,
        )
