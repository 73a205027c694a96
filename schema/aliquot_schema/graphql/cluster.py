"""The cluster below the agents."""

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.ray_views import ClusterView


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


@strawberry.type(description="What the agents are on, and have together.")
class Cluster:
    capacity: list[SlotCapacity] = strawberry.field(description="By slot.")
    ray: RayCluster | None = strawberry.field(description="Null where the server does not use Ray.")


@strawberry.type
class ClusterQueries:
    @root_field(Cluster, "What the agents are on, and have together.")
    async def cluster(self, info: Info[Context, None]) -> ClusterView:
        context = info.context
        return ClusterView(ray=context.ray(), capacity=context.reader.capacity(context.caller))
