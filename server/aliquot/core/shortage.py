"""Shortage: why a session that could run does not fit now, with what it rests on."""

from typing import Final

from aliquot.core.room import Room
from aliquot.core.snapshot import PendingRow
from aliquot_schema.reasons import Evidence, Reason, Verdict
from aliquot_schema.slots import format_amount

NAMED_MAX: Final = 16
"""Sessions named as holders, at most."""


def shortage(row: PendingRow, room: Room, *, fits_kernels: int) -> Verdict:
    """The one primary reason: part of the gang fits, a slot is short everywhere, or it is free but in pieces."""
    blocked_by = room.holders.oldest([slot for slot, _ in row.request], room.open_agents(row), most=NAMED_MAX)
    if fits_kernels:
        evidence = Evidence(fits_kernels=fits_kernels, blocked_by=blocked_by)
        return Verdict(reason=Reason.GANG_INCOMPLETE, evidence=evidence)
    for slot, amount in row.request:
        most = room.most_free(slot, row)
        if most < amount:
            evidence = Evidence(
                slot=slot,
                requested=format_amount(slot, amount),
                available=format_amount(slot, most),
                blocked_by=blocked_by,
            )
            return Verdict(reason=Reason.INSUFFICIENT, evidence=evidence)
    return Verdict(reason=Reason.FRAGMENTED, evidence=Evidence(blocked_by=blocked_by))
