"""Time of devices: how long each was held, used while it was held, and held by somebody who left it idle.

Summed at every reading, for the time since the one before. Kept in memory alone: it begins at 0 with each term.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aliquot.service.state import State
from aliquot_schema.devices import DeviceReading
from aliquot_schema.ids import AgentId, DeviceId

IDLE_PCT: Final = 5.0
"""A device that is used less than this is idle."""
GAP_S_MAX: Final = 30.0
"""Of a longer silence so much counts: what happened in the rest of it nobody saw."""


@dataclass(slots=True)
class Spent:
    """Seconds."""

    held: float = 0.0
    """Times the part that was held: an hour of a half is half an hour."""
    used: float = 0.0
    """Times the utilisation, of what was held at most."""
    idle: float = 0.0
    """While any of it was held, and it was idle; not times anything."""
    measured_at: float = 0.0


class DeviceTime:
    """Of all devices that are measured. What an agent no longer has is forgotten: slices come and go, each under a new
    name."""

    def __init__(self) -> None:
        self._spent: dict[AgentId, dict[DeviceId, Spent]] = {}

    def measure(self, agent_id: AgentId, readings: Iterable[DeviceReading], *, state: State, now_s: float) -> None:
        """Take in the readings of an agent.

        Args:
            now_s: seconds since some start.
        """
        agent = state.agents.get(agent_id)
        if agent is None:
            return
        devices, used = state.layouts[agent_id].devices, state.used.get(agent.node_id, {})
        own = self._spent.setdefault(agent_id, {})
        for gone in own.keys() - devices.keys():
            del own[gone]
        for reading in readings:
            device = devices.get(reading.device_id)
            if device is None or reading.utilization_pct is None:
                continue
            spent = own.get(device.id)
            if spent is None:
                own[device.id] = Spent(measured_at=now_s)
                continue
            since_s, spent.measured_at = min(now_s - spent.measured_at, GAP_S_MAX), now_s
            held = min(used.get(device.id, 0), device.budget) / device.budget
            if held:
                spent.held += since_s * held
                spent.used += since_s * min(held, reading.utilization_pct / 100)
                if reading.utilization_pct < IDLE_PCT:
                    spent.idle += since_s

    def clear(self) -> None:
        """Another server measures from now on."""
        self._spent.clear()

    def of(self, agent_id: AgentId, device_id: DeviceId) -> Spent:
        """What was measured of a device so far."""
        return self._spent.get(agent_id, {}).get(device_id) or Spent()
