"""Previews: what would become of a session if it were submitted now."""

from datetime import datetime
from typing import Annotated

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema import preview_views
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.amounts import SlotGrant
from aliquot_schema.graphql.answers import ON_CREATE, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import PreemptionCause
from aliquot_schema.graphql.inputs import CreateSessionInput
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.sessions import Failure, OrderEstimate, Verdict


@strawberry.type(description="Where one kernel would go, and exactly what it would get there.")
class PlannedKernel:
    rank: int = strawberry.field(description="From 0.")
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    node_id: strawberry.ID = strawberry.field(description="Its node.")
    resource_spec: list[SlotGrant] = strawberry.field(description="Slot by slot, device by device.")


@strawberry.type(description="A session that would be asked to make room.")
class Displaced:
    session_id: strawberry.ID = strawberry.field(description="Which one.")
    owner: str = strawberry.field(description="Whose it is.")
    cause: PreemptionCause = strawberry.field(description="By what right.")
    has_run: float | None = strawberry.field(description="Seconds that its attempt has run.")


@strawberry.type(
    description="What a scheduling pass at this moment would do with a session. Nothing is kept of it: another one "
    "may be faster."
)
class SessionPreview:
    revision: BigInt = strawberry.field(description="The event that the cluster and the queue are looked at after.")
    starts_now: bool = strawberry.field(description="Whether it would start at once.")
    kernels: list[PlannedKernel] = strawberry.field(
        description="Where it would start now, or at `expected_start`; empty when that is not known."
    )
    tasks_starting: int = strawberry.field(description="Of a job array: how many tasks would start at once.")
    queue_position: int | None = strawberry.field(description="From 1; null when it would not wait.")
    waits: Verdict | None = strawberry.field(description="Why it would wait; null when it would not.")
    expected_start: datetime | None = strawberry.field(description="When it would start at the latest, where known.")
    failure: Failure | None = strawberry.field(description="Why it would fail at once.")
    displaces: list[Displaced] = strawberry.field(description="Who would be asked to make room for it.")
    order_estimate: OrderEstimate | None = strawberry.field(description="How long it would be expected to run.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, preview_views.SessionPreview)


PreviewSessionResult = union("PreviewSessionResult", SessionPreview, *ON_CREATE)


@strawberry.type
class PreviewQueries:
    @root_field(PreviewSessionResult, "What would become of a session if it were submitted now. Changes nothing.")
    async def preview_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="As for `create_session`.")],
    ) -> preview_views.SessionPreview | errors.Error:
        context = info.context
        return await answer(context.reader.preview_session(context.caller, input.to_request()), ON_CREATE)
