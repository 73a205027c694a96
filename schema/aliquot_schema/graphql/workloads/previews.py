"""GraphQL API of previews: the scheduling decision for a session that is not submitted."""

from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, cast

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.cluster.billing import Cost
from aliquot_schema.graphql.cluster.history import RightSize
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import PreemptionCause
from aliquot_schema.graphql.errors import ON_CREATE, answer, error_value, union
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.inputs import CreateSessionInput
from aliquot_schema.graphql.scalars import BigInt, SlotAmount, SlotGrant
from aliquot_schema.graphql.workloads.forecasts import Forecast
from aliquot_schema.graphql.workloads.sessions import Failure, OrderEstimate, Verdict
from aliquot_schema.views import preview
from aliquot_schema.views.forecasts import ForecastView


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
    right_size: RightSize | None = strawberry.field(
        description="What the caller's last runs of this command needed; null if fewer than 3 are known."
    )
    cost: Cost | None = strawberry.field(description="What it would cost; null without prices or GPUs.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, preview.SessionPreview)


PreviewSessionResult = union("PreviewSessionResult", SessionPreview, *ON_CREATE)


@strawberry.type(description="When a session would start and end if it were submitted alone.")
class PreviewForecast:
    forecast: Forecast = strawberry.field(description="Its forecast; `missing` says why there is none.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, PreviewForecast)


PreviewForecastResult = union("PreviewForecastResult", PreviewForecast, *ON_CREATE)
_ForecastResults: Any = GenericAlias(list, (PreviewForecastResult,))


@strawberry.type
class PreviewQueries:
    @root_field(
        _ForecastResults,
        "When sessions would start if they were submitted, each of them alone, in the order given. The forecast "
        "process of the leading server answers, which may take some seconds while the queue is long.",
    )
    async def preview_forecasts(
        self,
        info: Info[Context, None],
        inputs: Annotated[
            list[CreateSessionInput],
            strawberry.argument(description="The sessions, as in `create_session`; at most 8."),
        ],
    ) -> list[PreviewForecast | errors.Error]:
        context = info.context
        requests = [item.to_request() for item in inputs]
        found = await context.services.queries.preview_forecasts(context.caller, requests)
        return [_result(one) for one in found]

    @root_field(PreviewSessionResult, "Preview the scheduling of a session without submitting it.")
    async def preview_session(
        self,
        info: Info[Context, None],
        input: Annotated[CreateSessionInput, strawberry.argument(description="As in `create_session`.")],
    ) -> preview.SessionPreview | errors.Error:
        context = info.context
        return await answer(context.services.queries.preview_session(context.caller, input.to_request()), ON_CREATE)


def _result(found: ForecastView | AliquotError) -> PreviewForecast | errors.Error:
    if not isinstance(found, AliquotError):
        return PreviewForecast(forecast=cast("Forecast", found))
    value = error_value(found)
    if value is None:
        raise found
    return value
