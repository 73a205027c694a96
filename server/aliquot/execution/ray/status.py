"""How Ray is, as the server knows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RayStatus:
    """Counts are 0 while not connected."""

    head_node: str
    """Its address, as it was configured."""
    connected: bool = False
    version: str | None = None
    workers: int = 0
    """Nodes with an agent that can be talked to."""
    nodes: int = 0
    reason: str | None = None
    """Why not connected; or why nodes have no agent."""
