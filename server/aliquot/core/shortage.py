"""Shortage: why a session that could run does not fit now, with what it rests on."""

from typing import Final

from aliquot.core.allocation.device_map import DeviceMap
from aliquot.core.room import Room
from aliquot.core.snapshot import AgentRow, PendingRow
from aliquot_schema.ids import SessionId, SlotName
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.slots import format_amount

NAMED_MAX: Final = 16
"""Sessions named as holders, at most."""


def shortage(row: PendingRow, room: Room, *, fits_kernels: int) -> Verdict:
    """The one primary reason: part of the gang fits, a slot is short everywhere, or it is free but in pieces."""
    blocked_by = _holders(row, room)
    if fits_kernels:
        evidence = Evidence(fits_kernels=fits_kernels, blocked_by=blocked_by)
        return Verdict(reason=Reason.GANG_INCOMPLETE, evidence=evidence)
    for slot, amount in row.request:
        most = max((_free(agent, room, slot) for agent in room.open_agents(row)), default=0)
        if most < amount:
            evidence = Evidence(
                slot=slot,
                requested=format_amount(slot, amount),
                available=format_amount(slot, most),
                blocked_by=blocked_by,
            )
            return Verdict(reason=Reason.INSUFFICIENT, evidence=evidence)
    return Verdict(reason=Reason.FRAGMENTED, evidence=Evidence(blocked_by=blocked_by))


def _free(agent: AgentRow, room: Room, slot: SlotName) -> int:
    return DeviceMap(agent.layout, room.used_on(agent.node_id)).free(slot).total


def _holders(row: PendingRow, room: Room) -> tuple[SessionId, ...]:
    """Sessions that hold a part of a device that offers one of the slots asked for, oldest first."""
    found: set[SessionId] = set()
    for agent in room.open_agents(row):
        for slot, _ in row.request:
            columns = agent.layout.slots.get(slot)
            for device_id in columns.ids if columns is not None else ():
                found.update(room.holders_of(agent.node_id, device_id))
    return tuple(sorted(found)[:NAMED_MAX])
