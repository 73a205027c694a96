"""Read models of a Ray cluster that agents are on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RayView:
    """How Ray is, as the server knows it. Counts are 0 while it is not connected."""

    head_node: str
    """`HOST:PORT`, as it was configured."""
    connected: bool = False
    version: str | None = None
    workers: int = 0
    """Nodes with an agent that can be talked to."""
    nodes: int = 0
    """Nodes that Ray calls alive."""
    reason: str | None = None
    """Why it is not connected; or why nodes have no agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCapacityView:
    """How much of a slot there is. Amounts are decimal text; `total` = `available` + `allocated`."""

    slot: str
    total: str
    available: str
    allocated: str
