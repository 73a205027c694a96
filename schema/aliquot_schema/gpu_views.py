"""GPUs as sessions ask for them, and are given them."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedGpuView:
    """A part of a GPU that a session was given."""

    node_id: str
    gpu_id: str
    share: float
    """Of the device, 0 to 1."""
    memory_gb: float
    """Its part of the device's memory, in 10^9 bytes."""


def gpus_in(slots: Iterable[tuple[str, str]]) -> float:
    """How many GPUs amounts of slots are together; shares count as they are."""
    return float(sum(Decimal(amount) for slot, amount in slots if slot.endswith((".device", ".shares"))))
