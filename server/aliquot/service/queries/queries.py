"""Queries: answered from the in-memory state, and from the store for sessions that were evicted from it."""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Final

from msgspec.structs import replace

from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.score_text import explain_score
from aliquot.service.access import agent_seen, members_only, session_seen
from aliquot.service.ports import Clock, SessionQuery, Store
from aliquot.service.queries.pools_and_projects import pool_views, project_views
from aliquot.service.queries.statistics import queue_statistics
from aliquot.service.sessions.explanations import Explanations
from aliquot.service.sessions.preview import Previews
from aliquot.service.sessions.what_if import WhatIfs
from aliquot.service.state.journal import Feed
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.views.agents import agent_view
from aliquot.service.views.gpus import capacity_of, gpus_view
from aliquot.service.views.idle_gpus import idle_behind_quotas
from aliquot.service.views.observed_gpus import WEEK, observed_gpus, observed_week
from aliquot.service.views.pagination import cut
from aliquot.service.views.session_list import (
    ORDERS,
    check,
    cursor_at,
    filters_by_hidden_fields,
    matching,
    place_of,
    sorted_page,
)
from aliquot.service.views.sessions import session_view, steps_of
from aliquot.service.views.start_forecasts import accuracy_view
from aliquot.service.views.terms import moment
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.errors import AliquotError, InvalidRequest, Unavailable
from aliquot_schema.ids import AgentId, SessionId, natural_key
from aliquot_schema.reasons import OUT_OF_LINE
from aliquot_schema.requests import (
    AgentFilter,
    AgentOrder,
    Caller,
    NewSession,
    PageRequest,
    SessionFilter,
    SessionOrder,
    WhatIf,
)
from aliquot_schema.resources.leases import Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import ENDED, AgentState
from aliquot_schema.views.admin import ClusterPoolView, ProjectView
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.audit import CursorPage, SessionStepView
from aliquot_schema.views.explanations import ExplanationView, WhatIfView
from aliquot_schema.views.forecasts import ForecastAccuracyView, ForecastView
from aliquot_schema.views.observation import ObservedGpuView, ObservedWeekView
from aliquot_schema.views.preview import SessionPreview
from aliquot_schema.views.server import RayView
from aliquot_schema.views.sessions import Page, QueueEntryView, SessionView
from aliquot_schema.views.statistics import ClusterView, IdleBehindQuotasView, QueueStatisticsView

REVISION_WAIT_S: Final = 5.0


class Queries:
    """The read side of the API."""

    def __init__(
        self,
        *,
        state: State,
        store: Store,
        feed: Feed,
        previews: Previews,
        explanations: Explanations,
        what_ifs: WhatIfs,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._explanations = explanations
        self._what_ifs = what_ifs
        self._previews = previews
        self._state = state
        self._store = store
        self._feed = feed
        self._cache = PassCache()

    async def at_revision(self, min_revision: int | None) -> int:
        """Wait until the state contains an event number; returns the state's revision.

        Raises:
            Unavailable: not reached within `REVISION_WAIT_S`.
        """
        if min_revision is not None and min_revision > self._state.revision:
            try:
                async with asyncio.timeout(REVISION_WAIT_S):
                    await self._feed.reached(min_revision)
            except TimeoutError:
                raise Unavailable(
                    f"min_revision: this server is at {self._state.revision} and did not reach {min_revision} within "
                    f"{REVISION_WAIT_S:g} s; try again"
                ) from None
        return self._state.revision

    def agents(self, caller: Caller, where: AgentFilter, order: str, page: PageRequest) -> Page[AgentView]:
        """Agents; those that left are listed only when filtered by state or id."""
        found = [agent for agent in self._state.agents.values() if _is_wanted(agent, where)]
        by_host = order == AgentOrder.HOSTNAME
        found.sort(key=lambda agent: (natural_key(agent.hostname if by_host else ""), natural_key(agent.id)))
        return cut(
            found,
            page,
            total=len(found),
            key=lambda agent: agent.id,
            show=lambda agent: self._agent_seen(caller, agent),
            revision=self._state.revision,
        )

    def agent(self, caller: Caller, agent_id: str) -> AgentView | None:
        """One agent."""
        agent = self._state.agents.get(AgentId(agent_id))
        return None if agent is None else self._agent_seen(caller, agent)

    def cluster(self, caller: Caller, ray: RayView | None) -> ClusterView:
        """Capacity of the reachable agents, and how much of it is held."""
        return ClusterView(
            ray=ray,
            capacity=capacity_of(self._state, self._state.agents.values()),
            look=cache(lambda: gpus_view(self._state)),
        )

    def pools(self, caller: Caller, *, name: str | None) -> tuple[ClusterPoolView, ...]:
        """All pools, or the pool `name`. Visible to all users."""
        return pool_views(self._state, name=name, now_us=self._clock.now_us())

    def projects(self, caller: Caller, *, name: str | None) -> tuple[ProjectView, ...]:
        """All projects, or the project `name`. Usage and quotas are visible to all users."""
        return project_views(self._state, name=name, now_us=self._clock.now_us())

    def queue_statistics(self, caller: Caller) -> QueueStatisticsView:
        """The queue now, and statistics of the last hour."""
        return queue_statistics(self._state, now_us=self._clock.now_us())

    def forecast_accuracy(self, caller: Caller) -> ForecastAccuracyView:
        """How accurate forecasts were. Visible to all users."""
        return accuracy_view(self._state.board)

    def observed_gpus(self, caller: Caller) -> tuple[ObservedGpuView, ...]:
        """Who uses which GPU now. Visible to all users, like the sessions on GPUs."""
        return observed_gpus(self._state)

    def observed_week(self, caller: Caller, week: str | None) -> ObservedWeekView | None:
        """GPU-hours by person in a week; None = nothing was recorded.

        Raises:
            InvalidRequest: the week has another form.
        """
        if week is not None and WEEK.fullmatch(week) is None:
            raise InvalidRequest(f"week: {week[:20]!r} is no week; write it like 2026-W48", field="week")
        return observed_week(self._state, week, now=moment(self._clock.now_us()))

    def idle_behind_quotas(self, caller: Caller) -> IdleBehindQuotasView | None:
        """GPUs that are idle while quotas hold waiting sessions back. Visible to all users, like quotas."""
        return idle_behind_quotas(self._state)

    async def sessions(self, caller: Caller, where: SessionFilter, order: str, page: PageRequest) -> Page[SessionView]:
        """Sessions; from memory when all that can match are there, else from the store."""
        query = self._query(caller, where, SessionOrder(order), page)
        if self._state.ended_complete or _only_live(where):
            return self._from_state(caller, query)
        return await self._from_store(caller, query)

    async def session(self, caller: Caller, session_id: str) -> SessionView | None:
        """One session, in memory or stored."""
        known = self._state.sessions.get(SessionId(session_id))
        if known is None:
            view = await self._old_view(SessionId(session_id))
        else:
            view = replace(session_view(self._state, known), order_explanation=self._order_explanation(known))
        return None if view is None else session_seen(caller, view)

    def _order_explanation(self, session: Session) -> str | None:
        if session.id not in self._state.pending:
            return None
        snapshot = take(self._state)
        index = self._cache.agent_index(snapshot.agents)
        return explain_score(snapshot, self._state.rules, session.id, now_us=self._clock.now_us(), index=index)

    async def session_steps(self, caller: Caller, session_id: str, page: PageRequest) -> CursorPage[SessionStepView]:
        """State changes of a session, newest first."""
        return await steps_of(self._store, SessionId(session_id), page)

    async def preview_session(self, caller: Caller, request: NewSession) -> SessionPreview:
        """See `Previews.preview`."""
        return await self._previews.preview(caller, request)

    async def preview_forecasts(
        self, caller: Caller, requests: Sequence[NewSession]
    ) -> tuple[ForecastView | AliquotError, ...]:
        """See `Previews.forecasts`."""
        return await self._previews.forecasts(caller, requests)

    async def session_why(self, caller: Caller, session_id: str) -> ExplanationView | None:
        """See `Explanations.explain`."""
        return await self._explanations.explain(caller, session_id)

    async def what_if(self, caller: Caller, asked: WhatIf) -> WhatIfView:
        """See `WhatIfs.what_if`."""
        return await self._what_ifs.what_if(caller, asked)

    def queue(self, caller: Caller, page: PageRequest) -> Page[QueueEntryView]:
        """Pending sessions in queue order."""
        state, verdicts = self._state, self._state.verdicts

        def is_out_of_line(session_id: SessionId) -> bool:
            verdict = verdicts.get(session_id)
            return verdict is not None and verdict.reason in OUT_OF_LINE

        @cache
        def skipped() -> int:
            return sum(map(is_out_of_line, state.queue()))

        def show(item: tuple[int, SessionId]) -> QueueEntryView:
            position, session_id = item
            # Those out of line come after those in line, and before those that no pass has seen.
            turn = None if is_out_of_line(session_id) else position - (0 if session_id in verdicts else skipped())
            return self._entry(caller, position=position, session_id=session_id, turn=turn)

        return cut(
            enumerate(state.queue(), start=1),
            page,
            total=len(state.pending),
            key=lambda item: item[1],
            show=show,
            revision=state.revision,
        )

    def _agent_seen(self, caller: Caller, agent: Agent) -> AgentView:
        return agent_seen(caller, agent_view(self._state, agent), self._state.sessions)

    def _entry(self, caller: Caller, *, position: int, session_id: SessionId, turn: int | None) -> QueueEntryView:
        view = replace(session_view(self._state, self._state.sessions[session_id]), queue_position=turn)
        return QueueEntryView(position=position, session=session_seen(caller, view))

    def _query(self, caller: Caller, where: SessionFilter, order: SessionOrder, page: PageRequest) -> SessionQuery:
        check(where)
        return SessionQuery(
            where=where,
            members_only=members_only(caller) if filters_by_hidden_fields(where) else None,
            agents=self._agents_matching(where),
            order=order,
            after=None if page.after is None else place_of(page.after, order=order),
            limit=page.first,
        )

    def _agents_matching(self, where: SessionFilter) -> tuple[AgentId, ...] | None:
        if not where.agents and not where.nodes:
            return None
        return tuple(
            agent.id
            for agent in self._state.agents.values()
            if (not where.agents or agent.id in where.agents) and (not where.nodes or agent.node_id in where.nodes)
        )

    def _from_state(self, caller: Caller, query: SessionQuery) -> Page[SessionView]:
        found = matching(self._state, query)
        page_items, has_next = sorted_page(found, query)
        views = [(session, session_seen(caller, session_view(self._state, session))) for session in page_items]
        return self._page(views, query, total=len(found), has_next=has_next)

    async def _from_store(self, caller: Caller, query: SessionQuery) -> Page[SessionView]:
        rows = await self._store.sessions(replace(query, limit=query.limit + 1))
        total = await self._store.count_sessions(query)
        found = [(row, await self.session(caller, row.id)) for row in rows[: query.limit]]
        views = [(row, view) for row, view in found if view is not None]
        return self._page(views, query, total=total, has_next=len(rows) > query.limit)

    async def _old_view(self, session_id: SessionId) -> SessionView | None:
        """A session that was evicted from memory, with its kernels and their leases."""
        records = await self._store.session_records(session_id)
        if not records:
            return None
        leases = [record for record in records if isinstance(record, Lease)]
        agents = {lease.agent_id: self._state.agents[lease.agent_id] for lease in leases}
        old = State()
        old.load([*agents.values(), *records], revision=self._state.revision, ended_complete=False)
        return session_view(old, old.sessions[session_id])

    def _page(
        self, views: list[tuple[Session, SessionView]], query: SessionQuery, *, total: int, has_next: bool
    ) -> Page[SessionView]:
        """A page; each cursor encodes the sort key that the session had when it was listed."""
        sorting = ORDERS[query.order]
        return Page(
            items=tuple(view for _, view in views),
            cursors=tuple(cursor_at(sorting.key(session), order=query.order) for session, _ in views),
            has_next=has_next,
            has_previous=query.after is not None,
            total_count=total,
            revision=self._state.revision,
        )


def _is_wanted(agent: Agent, where: AgentFilter) -> bool:
    if where.ids and agent.id not in where.ids:
        return False
    if where.states and agent.state not in where.states:
        return False
    if where.node_id is not None and agent.node_id != where.node_id:
        return False
    return agent.state is not AgentState.LEFT or bool(where.ids or where.states)


def _only_live(where: SessionFilter) -> bool:
    return bool(where.states) and not ENDED & frozenset(where.states)
