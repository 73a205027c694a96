"""Foreign processes: somebody uses an accelerator that nobody holds."""

from collections.abc import Iterator, Mapping

from aliquot.service.external import Blocked
from aliquot.service.reaper.differences import Difference
from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device, DeviceReading
from aliquot_schema.findings import Discrepancy
from aliquot_schema.ids import AgentId, DeviceId, NodeId
from aliquot_schema.slots import is_accelerator


def foreign_uses(state: State) -> Iterator[Difference]:
    """By the last measurement of each accelerator. Nothing is said of those whose processes cannot be attributed, nor
    of those of which somebody holds a part: his processes are on it, too."""
    for agent, device, reading in _used_by_others(state):
        used = ", ".join(
            f"{process.pid}" + (f" ({process.memory_bytes} bytes)" if process.memory_bytes is not None else "")
            for process in reading.processes or ()
        )
        yield Difference(
            kind=Discrepancy.EXTERNAL_PROCESS, agent_id=agent.id, subject=device.id, evidence=f"processes {used}"
        )


def blocked_by(state: State, sure: Mapping[tuple[AgentId, str], Difference]) -> Blocked:
    """The devices of these differences, by node, with their budgets."""
    found: dict[NodeId, dict[DeviceId, int]] = {}
    for agent_id, subject in sorted(sure):
        agent = state.agents.get(agent_id)
        for device in agent.devices if agent is not None else ():
            if agent is not None and device.id == subject:
                found.setdefault(agent.node_id, {})[device.id] = device.budget
    return found


def _used_by_others(state: State) -> Iterator[tuple[Agent, Device, DeviceReading]]:
    for agent in state.agents.values():
        held = state.used.get(agent.node_id, {})
        for device in agent.devices:
            reading = state.readings.get((agent.id, device.id))
            if reading is None or not reading.processes or not any(map(is_accelerator, device.costs)):
                continue
            kin = [other.id for other in agent.devices if other.parent == device.id or other.id == device.parent]
            is_free = not any(held.get(name) for name in (device.id, *kin))
            if is_free:
                yield agent, device, reading
