"""What the cluster, or a part of it, has: a sum over devices, each counted once, however many agents see it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from aliquot.service.state import State
from aliquot_schema.agents import Agent
from aliquot_schema.devices import Device, DeviceHealth
from aliquot_schema.ids import DeviceId, NodeId, SlotName
from aliquot_schema.ray_views import SlotCapacityView
from aliquot_schema.sizes import format_size
from aliquot_schema.slots import MILLI, format_milli, is_accelerator, is_size
from aliquot_schema.states import AgentState

COUNTED = frozenset({AgentState.ALIVE, AgentState.SUSPECT})


def capacity_of(state: State, agents: Iterable[Agent]) -> tuple[SlotCapacityView, ...]:
    """What these agents have, by slot, in the order of the slots' names; every slot of a device shows the same silicon
    in its own unit."""
    total: Counter[SlotName] = Counter()
    allocated: Counter[SlotName] = Counter()
    for node_id, device in _devices(agents):
        used = min(device.budget, state.used.get(node_id, {}).get(device.id, 0))
        for slot, cost in device.costs.items():
            total[slot] += _in_slot(slot, device.budget, cost=cost)
            allocated[slot] += _in_slot(slot, used, cost=cost)
    return tuple(_view(slot, total[slot], allocated[slot]) for slot in sorted(total))


def _devices(agents: Iterable[Agent]) -> Iterator[tuple[NodeId, Device]]:
    """Healthy devices; a piece of one that is itself there is not counted beside it."""
    found: dict[tuple[NodeId, DeviceId], Device] = {}
    for agent in agents:
        if agent.state in COUNTED:
            healthy = (device for device in agent.devices if device.health is DeviceHealth.HEALTHY)
            found.update(((agent.node_id, device.id), device) for device in healthy)
    for (node_id, _), device in found.items():
        if device.parent is None or (node_id, device.parent) not in found:
            yield node_id, device


def _in_slot(slot: SlotName, units: int, *, cost: int) -> int:
    """Budget units in milli of an accelerator's slot, else in the slot's base unit."""
    return units * MILLI // cost if is_accelerator(slot) and cost > 1 else units // cost


def _view(slot: SlotName, total: int, allocated: int) -> SlotCapacityView:
    total_text, available, held = (_text(slot, amount) for amount in (total, total - allocated, allocated))
    return SlotCapacityView(slot=slot, total=total_text, available=available, allocated=held)


def _text(slot: SlotName, amount: int) -> str:
    if is_size(slot):
        return format_size(amount)
    return format_milli(amount) if is_accelerator(slot) else str(amount)
