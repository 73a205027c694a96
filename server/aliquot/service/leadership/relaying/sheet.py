"""A sheet: what all devices measured last, agent by agent, as one server tells it to the others."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from aliquot.service.external import Blocked
from aliquot_schema.agents import Agent
from aliquot_schema.devices import DeviceReading
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.states import AgentState

Column = tuple[float | None, ...]
"""One measure of each device of an agent, in the agent's order; None = it cannot say, or has not measured yet."""
_MEASURED: Final = attrgetter("utilization_pct", "memory_used_bytes", "temperature_c", "power_w")
_NOTHING: Final = DeviceReading(device_id=DeviceId(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One agent."""

    agent_id: AgentId
    version: int
    """Of the agent whose devices they are: whoever knows another one may know other devices."""
    utilization_pct: Column
    memory_used_bytes: tuple[int | None, ...]
    temperature_c: Column
    power_w: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Of one moment. Processes on devices are left out: they are the reaper's business, who is with the leader."""

    lines: tuple[Line, ...]
    """Agents that have measured something."""
    blocked: Blocked
    """Devices that processes of others use."""


def sheet_of(
    agents: Iterable[Agent], readings: Mapping[tuple[AgentId, DeviceId], DeviceReading], *, blocked: Blocked
) -> Sheet:
    """Of agents that have not left."""
    return Sheet(lines=tuple(_lines(agents, readings)), blocked=blocked)


def readings_in(line: Line, agent: Agent) -> Iterator[DeviceReading]:
    """Of the agent as it was in that version."""
    columns = (line.utilization_pct, line.memory_used_bytes, line.temperature_c, line.power_w)
    for device, utilization_pct, memory_used_bytes, temperature_c, power_w in zip(agent.devices, *columns, strict=True):
        yield DeviceReading(
            device_id=device.id,
            utilization_pct=utilization_pct,
            memory_used_bytes=memory_used_bytes,
            temperature_c=temperature_c,
            power_w=power_w,
        )


def _lines(agents: Iterable[Agent], readings: Mapping[tuple[AgentId, DeviceId], DeviceReading]) -> Iterator[Line]:
    for agent in agents:
        if agent.state is AgentState.LEFT:
            continue
        found = [readings.get((agent.id, device.id), _NOTHING) for device in agent.devices]
        if any(one is not _NOTHING for one in found):
            utilization_pct, memory_used_bytes, temperature_c, power_w = zip(*map(_MEASURED, found), strict=True)
            yield Line(
                agent_id=agent.id,
                version=agent.version,
                utilization_pct=utilization_pct,
                memory_used_bytes=memory_used_bytes,
                temperature_c=temperature_c,
                power_w=power_w,
            )
