"""What the table of holdings has of a lease, in the words of an event that tells of it."""

from collections.abc import Iterator
from typing import Any

from aliquot_schema.leases import Lease


def rows_of(lease: Lease, *, event: int, pass_number: int | None) -> Iterator[dict[str, Any]]:
    """One of each slot of each device.

    Args:
        event: the number of that by which it was granted.
        pass_number: which granted it.
    """
    for slot, amounts in lease.spec.items():
        for device_id, amount in amounts.items():
            yield {
                "lease_id": lease.id,
                "device_id": device_id,
                "slot": slot,
                "kind": lease.kind.value,
                "agent_id": lease.agent_id,
                "session_id": lease.session_id,
                "owner": lease.owner,
                "amount": amount,
                "from_us": lease.granted_us,
                "pass_number": pass_number,
                "granted_event": event,
            }


def end_of(lease: Lease, *, event: int | None) -> dict[str, Any]:
    """The columns that change until it is given back.

    Args:
        event: the number of that by which it was; None = it is held.
    """
    return {
        "until_us": lease.until_us,
        "ended_us": lease.released_us,
        "evidence": None if lease.evidence is None else lease.evidence.value,
        "ended_event": event,
    }
