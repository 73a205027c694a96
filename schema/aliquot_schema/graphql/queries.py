"""Queries of sessions, agents and the queue, and the `Query` type. Each root field calls its port once."""

from datetime import datetime
from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.administration.accounts import AccountQueries
from aliquot_schema.graphql.administration.alerts import NoticeQueries
from aliquot_schema.graphql.administration.audit import AuditQueries
from aliquot_schema.graphql.administration.backtests import BacktestQueries
from aliquot_schema.graphql.administration.operations import DoctorQueries, OrchestratorQueries
from aliquot_schema.graphql.administration.secrets import SecretQueries
from aliquot_schema.graphql.cluster.agents import Agent
from aliquot_schema.graphql.cluster.billing import BillingQueries
from aliquot_schema.graphql.cluster.cluster import ClusterQueries, DivisionQueries, StatisticsQueries
from aliquot_schema.graphql.cluster.history import HistoryQueries
from aliquot_schema.graphql.cluster.observation import ObservationQueries
from aliquot_schema.graphql.cluster.policy import AdministrationQueries
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import AgentOrder, SessionOrder
from aliquot_schema.graphql.fields import root_field
from aliquot_schema.graphql.inputs import AgentFilterInput
from aliquot_schema.graphql.pagination import PAGE_DEFAULT, After, Connection, First, connection_of, page_of
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.workloads.bookings import BookingQueries
from aliquot_schema.graphql.workloads.explanations import ExplanationQueries
from aliquot_schema.graphql.workloads.forecasts import ForecastQueries
from aliquot_schema.graphql.workloads.metrics import MetricQueries
from aliquot_schema.graphql.workloads.previews import PreviewQueries
from aliquot_schema.graphql.workloads.result_files import ResultQueries
from aliquot_schema.graphql.workloads.sessions import Session, SessionFilterInput, SessionLogQueries, SessionStepQueries
from aliquot_schema.graphql.workloads.templates import TemplateQueries
from aliquot_schema.requests import AgentFilter, SessionFilter
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.sessions import QueueEntryView, SessionView


@strawberry.type(description="A queued session and its position.")
class QueueEntry:
    position: int = strawberry.field(
        description="From 1, in scheduling order. `queue_position` of a session counts those that wait for their turn."
    )
    session: Session = strawberry.field(description="The session.")


@strawberry.type(description="One committed change of a session.")
class QueueUpdate:
    event_number: BigInt = strawberry.field(
        description="Number of the event, the queue's new revision. Pass it as `after` to resume without gaps."
    )
    at: datetime = strawberry.field(description="When it was committed.")
    kind: str = strawberry.field(description="What happened, like `session.running`.")
    session: Session = strawberry.field(description="The session right after this event.")
    pending: int = strawberry.field(
        description="Number of sessions queued or held right after this event; for an old event, the current number."
    )


@strawberry.type(description="A piece of a kernel's output.")
class LogChunk:
    session_id: strawberry.ID = strawberry.field(description="The session.")
    kernel_id: strawberry.ID = strawberry.field(description="The kernel.")
    rank: int = strawberry.field(description="The kernel's rank, from 0.")
    offset: BigInt = strawberry.field(description="Offset of the first byte.")
    next_offset: BigInt = strawberry.field(description="Offset of the next piece. Pass it as `offset` to resume.")
    text: str = strawberry.field(description="The output decoded as UTF-8; invalid bytes become U+FFFD.")
    at_end: bool = strawberry.field(description="Whether the output is complete.")


MinRevision = Annotated[
    BigInt | None,
    strawberry.argument(
        description="Answer only once this event is included; pass a mutation's `revision` to read its effect."
    ),
]


@strawberry.type(description="Read access to sessions, agents, devices, policy and statistics.")
class Query(
    AccountQueries,
    AdministrationQueries,
    AuditQueries,
    BacktestQueries,
    BillingQueries,
    BookingQueries,
    ClusterQueries,
    DivisionQueries,
    DoctorQueries,
    ForecastQueries,
    HistoryQueries,
    MetricQueries,
    NoticeQueries,
    OrchestratorQueries,
    ExplanationQueries,
    PreviewQueries,
    ResultQueries,
    SecretQueries,
    SessionLogQueries,
    SessionStepQueries,
    StatisticsQueries,
    ObservationQueries,
    TemplateQueries,
):
    @root_field(Connection[Agent], "The agents of the cluster.")
    async def agents(
        self,
        info: Info[Context, None],
        filter: Annotated[AgentFilterInput | None, strawberry.argument(description="Restricts the list.")] = None,
        order: Annotated[AgentOrder, strawberry.argument(description="Sort order.")] = AgentOrder.ID,
        first: First = PAGE_DEFAULT,
        after: After = None,
        min_revision: MinRevision = None,
    ) -> Connection[AgentView]:
        context = info.context
        await context.services.queries.at_revision(min_revision)
        where = filter.to_filter() if filter else AgentFilter()
        return connection_of(context.services.queries.agents(context.caller, where, order, page_of(first, after)))

    @root_field(Agent | None, "One agent by its id; null if there is none.")
    async def agent(
        self,
        info: Info[Context, None],
        agent_id: Annotated[str, strawberry.argument(description="The agent's id.")],
        min_revision: MinRevision = None,
    ) -> AgentView | None:
        context = info.context
        await context.services.queries.at_revision(min_revision)
        return context.services.queries.agent(context.caller, agent_id)

    @root_field(Connection[Session], "Sessions, including ended ones.")
    async def sessions(
        self,
        info: Info[Context, None],
        filter: Annotated[SessionFilterInput | None, strawberry.argument(description="Restricts the list.")] = None,
        order: Annotated[SessionOrder, strawberry.argument(description="Sort order.")] = SessionOrder.NEWEST,
        first: First = PAGE_DEFAULT,
        after: After = None,
        min_revision: MinRevision = None,
    ) -> Connection[SessionView]:
        context = info.context
        await context.services.queries.at_revision(min_revision)
        where = filter.to_filter() if filter else SessionFilter()
        return connection_of(
            await context.services.queries.sessions(context.caller, where, order, page_of(first, after))
        )

    @root_field(Session | None, "One session by its id; null if there is none.")
    async def session(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="The session's id.")],
        min_revision: MinRevision = None,
    ) -> SessionView | None:
        context = info.context
        await context.services.queries.at_revision(min_revision)
        return await context.services.queries.session(context.caller, id)

    @root_field(
        Connection[QueueEntry],
        "Waiting sessions in scheduling order.",
    )
    async def queue(
        self,
        info: Info[Context, None],
        first: First = PAGE_DEFAULT,
        after: After = None,
        min_revision: MinRevision = None,
    ) -> Connection[QueueEntryView]:
        context = info.context
        await context.services.queries.at_revision(min_revision)
        return connection_of(context.services.queries.queue(context.caller, page_of(first, after)))
