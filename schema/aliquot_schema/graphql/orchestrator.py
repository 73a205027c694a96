"""Which server leads, and whether anything new is placed."""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import OrchestratorState, ServerRole
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.server_views import OrchestratorChanged, OrchestratorView


@strawberry.type(description="The servers of the cluster, as the one that answers sees them.")
class Orchestrator:
    role: ServerRole = strawberry.field(description="What the server that answers does.")
    address: str = strawberry.field(description="Where it is reached.")
    leader_address: str | None = strawberry.field(
        description="Where the one is that leads; null while nobody does, or does not say."
    )
    epoch: BigInt = strawberry.field(description="Of the newest term of a leader; agents refuse older ones.")
    leads_since: datetime | None = strawberry.field(description="When that term began.")
    state: OrchestratorState = strawberry.field(description="Of all servers together, and kept over restarts.")
    stopped_by: str | None = strawberry.field(description="Who stopped it; null while it runs.")
    stopped_at: datetime | None = strawberry.field(description="When; null while it runs.")
    changed_by: str | None = strawberry.field(
        description="Who stopped or started it last; null when nobody ever did. `system:settings` is a setting."
    )
    changed_at: datetime | None = strawberry.field(description="When that was.")
    note: str | None = strawberry.field(description="Why, in that person's words.")


@strawberry.type(description="The orchestrator is as it says here.")
class OrchestratorChangeSuccess:
    orchestrator: Orchestrator = strawberry.field(description="The orchestrator.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, OrchestratorChanged)


OrchestratorChangeResult: Final = union("OrchestratorChangeResult", OrchestratorChangeSuccess, *ALWAYS)
Note = Annotated[str | None, strawberry.argument(description="Why, for those who look at it; kept with the event.")]


@strawberry.type
class OrchestratorQueries:
    @root_field(Orchestrator, "Which server leads, what the one that answers does, and whether anything is placed.")
    async def orchestrator(self, info: Info[Context, None]) -> OrchestratorView:
        return info.context.orchestrator()


@strawberry.type
class OrchestratorMutations:
    @root_field(
        OrchestratorChangeResult,
        "Place and preempt nothing any more, on any server, until it is started again. Sessions that run, the reaper "
        "and submissions go on. For operators.",
    )
    async def orchestrator_stop(
        self, info: Info[Context, None], note: Note = None
    ) -> OrchestratorChanged | errors.Error:
        async def stop() -> OrchestratorChanged:
            context = info.context
            revision = await context.admin.stop_orchestrator(context.caller, note)
            return OrchestratorChanged(orchestrator=context.orchestrator(), revision=revision)

        return await answer(stop(), ALWAYS)

    @root_field(OrchestratorChangeResult, "Place what waits again. For operators.")
    async def orchestrator_start(
        self, info: Info[Context, None], note: Note = None
    ) -> OrchestratorChanged | errors.Error:
        async def start() -> OrchestratorChanged:
            context = info.context
            revision = await context.admin.start_orchestrator(context.caller, note)
            return OrchestratorChanged(orchestrator=context.orchestrator(), revision=revision)

        return await answer(start(), ALWAYS)
