"""The cluster below the agents."""

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.devices import Gpu
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.statistics_views import ClusterView


@strawberry.type(description="The Ray cluster whose nodes have agents, as this server sees it now.")
class RayCluster:
    head_node: str = strawberry.field(description="The address of its head, HOST:PORT.")
    connected: bool = strawberry.field(description="Whether Ray answers.")
    version: str | None = strawberry.field(description="Ray's version; null while not connected.")
    workers: int = strawberry.field(description="Nodes with an agent that can be talked to.")
    nodes: int = strawberry.field(description="Nodes that Ray calls alive, its head included.")
    reason: str | None = strawberry.field(
        description="Why it is not connected; while it is, why nodes have no agent that can be talked to."
    )


@strawberry.type(
    description="How much of a slot the agents have that can be asked. A device that several of them see counts once; "
    "whole devices of which a part is held count by that part."
)
class SlotCapacity:
    slot: str = strawberry.field(description="The slot's name.")
    total: str = strawberry.field(description="On all healthy devices.")
    available: str = strawberry.field(description="What of it nobody holds, in whatever pieces.")
    allocated: str = strawberry.field(description="What of it is held.")


@strawberry.type(description="A host with agents.")
class Node:
    node_id: strawberry.ID = strawberry.field(description="Stable over reboots.")
    hostname: str = strawberry.field(description="Its name.")
    gpu_count: int = strawberry.field(description="GPUs, each once.")
    gpu_type: str = strawberry.field(description="Their models, most of them first; empty without GPUs.")
    agents: list[strawberry.ID] = strawberry.field(description="The agents on it.")


@strawberry.type(description="What the agents are on, and have together. A shared GPU counts by its parts.")
class Cluster:
    total_gpus: float = strawberry.field(description="Healthy GPUs, each once.")
    available_gpus: float = strawberry.field(
        description="What of these may be given to somebody, in fractions and in whatever pieces; "
        "those of drained agents, and those that processes of others are on, are not."
    )
    allocated_gpus: float = strawberry.field(description="What of these is held, in fractions.")
    nodes: list[Node] = strawberry.field(description="The hosts.")
    gpus: list[Gpu] = strawberry.field(description="All GPUs, those included that are not healthy.")
    capacity: list[SlotCapacity] = strawberry.field(description="By slot.")
    ray: RayCluster | None = strawberry.field(description="Null where the server does not use Ray.")


@strawberry.type
class ClusterQueries:
    @root_field(Cluster, "What the agents are on, and have together.")
    async def cluster(self, info: Info[Context, None]) -> ClusterView:
        context = info.context
        return context.reader.cluster(context.caller, context.ray())
