"""Registration: what an agent says of itself, merged into what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from aliquot.core import transitions
from aliquot.service.draft import Draft
from aliquot.service.state import State
from aliquot_schema.agents import Agent, KnownSlot
from aliquot_schema.devices import Device, DeviceHealth
from aliquot_schema.ids import AgentId, DeviceId, NodeId, SlotName
from aliquot_schema.slots import SlotType
from aliquot_schema.states import AGENT_MOVES, AgentState

TOLD: Final = (
    "node_id",
    "hostname",
    "devices",
    "slot_types",
    "attributes",
    "capabilities",
    "allocation_mode",
    "scaling_factor",
    "boot_id",
    "software_version",
)
"""What an agent says of itself; the rest is the server's."""


def register(
    draft: Draft, told: Agent, *, beside: Sequence[Agent] = (), held: frozenset[DeviceId], now_us: int
) -> Agent:
    """Take in an agent that joins, or joins again.

    Args:
        told: as the agent describes itself.
        beside: the agents of its node, as they are known.
        held: devices that somebody holds a lease on; one of these that is no longer reported is kept as `gone`.
    """
    _remember_slots(draft, told.slot_types, now_us=now_us)
    told = replace(told, devices=(*told.devices, *_old_pieces(told, beside, held=held)))
    known = draft.agent(told.id)
    if known is None:
        return draft.put(replace(told, state=AgentState.ALIVE, registered_us=now_us, state_changed_us=now_us), "joined")
    back = transitions.move_agent(_merged(known, told, held=held), AgentState.ALIVE, now_us=now_us)
    if back == known:
        return known
    return draft.put(back, "changed" if known.state is AgentState.ALIVE else "back")


def elsewhere(state: State, agent_id: AgentId, *, node_id: NodeId, boot_id: str) -> str | None:
    """Why an agent may not join from another machine than before; None when it may.

    What it holds was ordered on the machine that it was on, where it may still run: sent again here, it would run
    twice. A machine that was only given another identity has the same boot id.
    """
    known = state.agents.get(agent_id)
    if known is None or known.node_id == node_id or known.boot_id == boot_id or not state.is_held(agent_id):
        return None
    return (
        f"{agent_id} holds devices of another machine ({known.hostname}), where its kernels may still run: let them "
        "end there, or say with release_lost_agent that they are gone, or give this machine an --id and key of its own"
    )


def leave(draft: Draft, agent_id: AgentId, *, to: AgentState, now_us: int) -> None:
    """An agent cannot be asked any more. One that left, or is lost, does not become a suspect by being silent."""
    agent = draft.agent(agent_id)
    if agent is not None and to in AGENT_MOVES[agent.state]:
        draft.put(transitions.move_agent(agent, to, now_us=now_us), str(to))


def _merged(known: Agent, told: Agent, *, held: frozenset[DeviceId]) -> Agent:
    devices = told.devices + tuple(_gone(known.devices, told.devices, held=held))
    news = {name: getattr(told, name) for name in TOLD}
    return replace(known, **{**news, "devices": devices})


def _gone(before: tuple[Device, ...], now: tuple[Device, ...], *, held: frozenset[DeviceId]) -> list[Device]:
    present = {device.id for device in now}
    return [
        replace(device, health=DeviceHealth.GONE) for device in before if device.id not in present and device.id in held
    ]


def _old_pieces(told: Agent, beside: Sequence[Agent], *, held: frozenset[DeviceId]) -> list[Device]:
    """Pieces of the agent's devices that others were given before the node was divided anew, and gave away: while one
    of them is held, the whole is not free (decision 0024)."""
    wholes = {device.id for device in told.devices}
    others = (device for agent in beside if agent.id != told.id for device in agent.devices)
    pieces = {device.id: device for device in others if device.parent in wholes and device.id in held - wholes}
    return [replace(piece, health=DeviceHealth.GONE) for piece in pieces.values()]


def _remember_slots(draft: Draft, types: Mapping[SlotName, SlotType], *, now_us: int) -> None:
    for name, slot_type in types.items():
        if draft.slot(name) is None:
            draft.put(KnownSlot(id=name, version=0, type=slot_type, first_seen_us=now_us), "first_seen")
