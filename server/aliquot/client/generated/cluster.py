"""Cluster.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct

from aliquot.client.generated.devices import Gpu


class Node(Struct, frozen=True, kw_only=True):
    """A host with agents."""

    node_id: str
    """Stable over reboots."""
    hostname: str
    """Its name."""
    gpu_count: int
    """GPUs, each once."""
    gpu_type: str
    """Their models, most of them first; empty without GPUs."""
    agents: tuple[str, ...]
    """The agents on it."""


class SlotCapacity(Struct, frozen=True, kw_only=True):
    """
    How much of a slot the agents have that can be asked. A device that several of them see counts once; whole devices
    of which a part is held count by that part.
    """

    slot: str
    """The slot's name."""
    total: str
    """On all healthy devices."""
    available: str
    """What of it nobody holds, in whatever pieces."""
    allocated: str
    """What of it is held."""


class RayCluster(Struct, frozen=True, kw_only=True):
    """The Ray cluster whose nodes have agents, as this server sees it now."""

    head_node: str
    """The address of its head, HOST:PORT."""
    connected: bool
    """Whether Ray answers."""
    version: str | None
    """Ray's version; null while not connected."""
    workers: int
    """Nodes with an agent that can be talked to."""
    nodes: int
    """Nodes that Ray calls alive, its head included."""
    reason: str | None
    """Why it is not connected; while it is, why nodes have no agent that can be talked to."""


class Cluster(Struct, frozen=True, kw_only=True):
    """What the agents are on, and have together. A shared GPU counts by its parts."""

    total_gpus: float
    """Healthy GPUs, each once."""
    available_gpus: float
    """
    What of these may be given to somebody, in fractions and in whatever pieces; those of drained agents, and those that
    processes of others are on, are not.
    """
    allocated_gpus: float
    """What of these is held, in fractions."""
    nodes: tuple[Node, ...]
    """The hosts."""
    gpus: tuple[Gpu, ...]
    """All GPUs, those included that are not healthy."""
    capacity: tuple[SlotCapacity, ...]
    """By slot."""
    ray: RayCluster | None
    """Null where the server does not use Ray."""
