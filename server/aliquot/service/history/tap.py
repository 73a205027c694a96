"""The tap: readings of agents, with what of each device is held, as samples. Runs in the event loop; does little."""

from aliquot.service.agent_projection import HOST_SLOTS
from aliquot.service.history.samples import DeviceSample, Roster
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device, DeviceHealth, DeviceReading
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.launching import ReadingsTaken
from aliquot_schema.slots import MILLI


class Tap:
    """The devices of an agent are looked through when they change, not with every reading."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._known: dict[AgentId, tuple[tuple[Device, ...], tuple[Device, ...], Roster]] = {}

    def sample(self, message: ReadingsTaken, *, at_us: int) -> DeviceSample | None:
        """What an agent's accelerators measured; None when it has none.

        Args:
            at_us: by the server's clock: agents' clocks differ.
        """
        agent = self._state.agents.get(message.agent_id)
        if agent is None:
            return None
        devices, roster = self._accelerators(agent)
        if not devices:
            return None
        used = self._state.used.get(agent.node_id, {})
        readings = {reading.device_id: reading for reading in message.readings}
        values = tuple(
            _numbers(readings.get(device.id), min(used.get(device.id, 0), device.budget) * MILLI / device.budget)
            for device in devices
        )
        return DeviceSample(roster=roster, at_us=at_us, values=values)

    def _accelerators(self, agent: Agent) -> tuple[tuple[Device, ...], Roster]:
        known = self._known.get(agent.id)
        if known is None or known[0] is not agent.devices or known[2].node_id != agent.node_id:
            found = tuple(
                device
                for device in agent.devices
                if device.kind not in HOST_SLOTS and device.health is not DeviceHealth.GONE
            )
            known = self._known[agent.id] = (agent.devices, found, _roster(agent, found))
        return known[1], known[2]


def _roster(agent: Agent, devices: tuple[Device, ...]) -> Roster:
    there: set[DeviceId] = {device.id for device in devices}
    return Roster(
        agent_id=agent.id,
        node_id=agent.node_id,
        device_ids=tuple(device.id for device in devices),
        counted=tuple(
            device.health is DeviceHealth.HEALTHY and (device.parent is None or device.parent not in there)
            for device in devices
        ),
    )


def _numbers(reading: DeviceReading | None, held_milli: float) -> tuple[float | None, ...]:
    """In the order of `DEVICE_MEASURES`."""
    if reading is None:
        return (None, None, None, None, held_milli)
    return (reading.utilization_pct, reading.memory_used_bytes, reading.temperature_c, reading.power_w, held_milli)
