"""Queries. Each root field asks the reader once; everything below it is plain attributes."""

from typing import Annotated

import strawberry
from strawberry.types import Info

from aliquot_schema.graphql.accounts import AccountQueries
from aliquot_schema.graphql.administration import AdministrationQueries
from aliquot_schema.graphql.agents import Agent
from aliquot_schema.graphql.audit import AuditQueries
from aliquot_schema.graphql.cluster import ClusterQueries
from aliquot_schema.graphql.connections import Connection, connection_of
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.divisions import DivisionQueries
from aliquot_schema.graphql.doctor import DoctorQueries
from aliquot_schema.graphql.enums import AgentOrder, SessionOrder
from aliquot_schema.graphql.history import HistoryQueries
from aliquot_schema.graphql.inputs import AgentFilterInput
from aliquot_schema.graphql.notices import NoticeQueries
from aliquot_schema.graphql.orchestrator import OrchestratorQueries
from aliquot_schema.graphql.paging import PAGE_DEFAULT, After, First, page_of
from aliquot_schema.graphql.previews import PreviewQueries
from aliquot_schema.graphql.queue import QueueEntry
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.graphql.secrets import SecretQueries
from aliquot_schema.graphql.session_filters import SessionFilterInput
from aliquot_schema.graphql.session_log import SessionLogQueries
from aliquot_schema.graphql.session_steps import SessionStepQueries
from aliquot_schema.graphql.sessions import Session
from aliquot_schema.graphql.statistics import StatisticsQueries
from aliquot_schema.requests import AgentFilter, SessionFilter
from aliquot_schema.views import AgentView, QueueEntryView, SessionView

MinRevision = Annotated[
    BigInt | None,
    strawberry.argument(description="Wait until this event is known; a mutation's `revision` shows its own effect."),
]


@strawberry.type(description="Questions.")
class Query(
    AccountQueries,
    AdministrationQueries,
    AuditQueries,
    ClusterQueries,
    DivisionQueries,
    DoctorQueries,
    HistoryQueries,
    NoticeQueries,
    OrchestratorQueries,
    PreviewQueries,
    SecretQueries,
    SessionLogQueries,
    SessionStepQueries,
    StatisticsQueries,
):
    @root_field(Connection[Agent], "The agents of the cluster.")
    async def agents(
        self,
        info: Info[Context, None],
        filter: Annotated[AgentFilterInput | None, strawberry.argument(description="Which agents.")] = None,
        order: Annotated[AgentOrder, strawberry.argument(description="In which order.")] = AgentOrder.ID,
        first: First = PAGE_DEFAULT,
        after: After = None,
        min_revision: MinRevision = None,
    ) -> Connection[AgentView]:
        context = info.context
        await context.reader.at_revision(min_revision)
        where = filter.to_filter() if filter else AgentFilter()
        return connection_of(context.reader.agents(context.caller, where, order, page_of(first, after)))

    @root_field(Agent | None, "One agent; null when there is none of this id.")
    async def agent(
        self,
        info: Info[Context, None],
        agent_id: Annotated[str, strawberry.argument(description="Its id.")],
        min_revision: MinRevision = None,
    ) -> AgentView | None:
        context = info.context
        await context.reader.at_revision(min_revision)
        return context.reader.agent(context.caller, agent_id)

    @root_field(Connection[Session], "Sessions, ended ones included.")
    async def sessions(
        self,
        info: Info[Context, None],
        filter: Annotated[SessionFilterInput | None, strawberry.argument(description="Which sessions.")] = None,
        order: Annotated[SessionOrder, strawberry.argument(description="In which order.")] = SessionOrder.NEWEST,
        first: First = PAGE_DEFAULT,
        after: After = None,
        min_revision: MinRevision = None,
    ) -> Connection[SessionView]:
        context = info.context
        await context.reader.at_revision(min_revision)
        where = filter.to_filter() if filter else SessionFilter()
        return connection_of(await context.reader.sessions(context.caller, where, order, page_of(first, after)))

    @root_field(Session | None, "One session; null when there is none of this id.")
    async def session(
        self,
        info: Info[Context, None],
        id: Annotated[strawberry.ID, strawberry.argument(description="Its id.")],
        min_revision: MinRevision = None,
    ) -> SessionView | None:
        context = info.context
        await context.reader.at_revision(min_revision)
        return await context.reader.session(context.caller, id)

    @root_field(
        Connection[QueueEntry],
        "The sessions that wait, in the order in which the allocator looks at them.",
    )
    async def queue(
        self,
        info: Info[Context, None],
        first: First = PAGE_DEFAULT,
        after: After = None,
        min_revision: MinRevision = None,
    ) -> Connection[QueueEntryView]:
        context = info.context
        await context.reader.at_revision(min_revision)
        return connection_of(context.reader.queue(context.caller, page_of(first, after)))
