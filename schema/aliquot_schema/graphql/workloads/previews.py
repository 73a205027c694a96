"""GraphQL API of previews: the scheduling decision for a session that is not submitted."""

from datetime import datetime
from typing import Annotated

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import PreemptionCause
from aliquot_schema.graphql.errors import ON_CREATE, answer, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.inputs import CreateSessionInput
from aliquot_schema.graphql.scalars import BigInt, SlotAmount, SlotGrant
from aliquot_schema.graphql.workloads.sessions import Failure, OrderEstimate, Verdict
from aliquot_schema.views import preview


@strawberry.type(description="Agent and allocation that one kernel would get.")
class PlannedKernel:
    rank: int = strawberry.field(description="Rank of the kernel, from 0.")
    agent_id: strawberry.ID = strawberry.field(description="The agent.")
    node_id: strawberry.ID = strawberry.field(description="Node of the agent.")
    resource_spec: list[SlotGrant] = strawberry.field(description="Its allocation by slot and device.")


@strawberry.type(description="A session that would be preempted.")
class Displaced:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    owner: str = strawberry.field(description="Its owner.")
    cause: PreemptionCause = strawberry.field(description="Cause of the preemption.")
    has_run: float | None = strawberry.field(description="Run time of its attempt in seconds; null = not started.")


@strawberry.type(
    description="The decision a scheduling pass would take now on a session. Nothing is reserved: other sessions may "
    "be placed first."
)
class SessionPreview:
    revision: BigInt = strawberry.field(description="Number of the last event included.")
    slots: list[SlotAmount] = strawberry.field(
        description="Slots per kernel, with the CPUs and memory that the pool gives with each GPU."
    )
    starts_now: bool = strawberry.field(description="Whether it would start now.")
    kernels: list[PlannedKernel] = strawberry.field(
        description="Placement now, or at `expected_start`; empty if unknown."
    )
    tasks_starting: int = strawberry.field(description="Job arrays: number of tasks that would start now.")
    queue_position: int | None = strawberry.field(description="From 1; null if it would not wait.")
    waits: Verdict | None = strawberry.field(description="Why it would wait; null if it would not.")
    expected_start: datetime | None = strawberry.field(description="Latest start; null if unknown.")
    failure: Failure | None = strawberry.field(description="Why it would fail immediately.")
    displaces: list[Displaced] = strawberry.field(description="Sessions that would be preempted for it.")
    order_estimate: OrderEstimate | None = strawberry.field(description="Expected run time.")
    estimated_start: datetime | None = strawberry.field(
        description="Without `expected_start`: until when it would wait if all sessions keep to their limits and "
        "estimates. It is not a promise; null if unknown."
    )

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, preview.SessionPreview)


PreviewSessionResult = union("PreviewSessionResult", SessionPreview, *ON_CREATE)


@strawberry.type
class PreviewQueries:
    @root_field(PreviewSessionResult, "Preview the scheduling of a session without submitting it.")
    async def preview_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="As in `create_session`.")],
    ) -> preview.SessionPreview | errors.Error:
        context = info.context
        return await answer(context.reader.preview_session(context.caller, input.to_request()), ON_CREATE)
