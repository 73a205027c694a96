"""The policy of a pass: what `decide` is free to do, as one value that is part of its input."""

from dataclasses import dataclass, field

from aliquot.core.allocation.options import AllocationOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How sessions are ordered and placed."""

    version: int = 1
    order: str = "fcfs"
    """Name of an order policy, see `ordering`."""
    placement: str = "least_waste"
    """Name of a placement strategy, see `placement.strategies`."""
    allocation: AllocationOptions = field(default_factory=AllocationOptions)
    """How devices are chosen inside an agent."""
