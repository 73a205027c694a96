"""Which server leads."""

from datetime import datetime

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import ServerRole
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.server_views import OrchestratorView


@strawberry.type(description="The servers of the cluster, as the one that answers sees them.")
class Orchestrator:
    role: ServerRole = strawberry.field(description="What the server that answers does.")
    address: str = strawberry.field(description="Where it is reached.")
    leader_address: str | None = strawberry.field(
        description="Where the one is that leads; null while nobody does, or does not say."
    )
    epoch: BigInt = strawberry.field(description="Of the newest term of a leader; agents refuse older ones.")
    leads_since: datetime | None = strawberry.field(description="When that term began.")


@strawberry.type
class OrchestratorQueries:
    @root_field(Orchestrator, "Which server leads, and what the one that answers does.")
    async def orchestrator(self, info: Info[Context, None]) -> OrchestratorView:
        return info.context.orchestrator()
