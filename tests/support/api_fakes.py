"""A reader, a writer and a watcher that mirror the protocols of `aliquot_schema.graphql.context`, in memory."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

import api_views as views
from aliquot_schema.errors import (
    AliquotError,
    ImpossibleRequest,
    InvalidRequest,
    NotFound,
    StateConflict,
    Unavailable,
    VersionConflict,
)
from aliquot_schema.requests import (
    AgentFilter,
    Caller,
    NewSession,
    PageRequest,
    SessionAction,
    SessionAmendment,
    SessionChanged,
    SessionFilter,
    SessionOrder,
    SessionOutcome,
    SessionOutcomes,
    SessionsAction,
    SessionsChanged,
    SessionsCreated,
    WhatIf,
)
from aliquot_schema.sessions import Priority
from aliquot_schema.states import PENDING, SessionState
from aliquot_schema.views.admin import ClusterPoolView, ProjectView
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.explanations import ExplanationView, WhatIfView
from aliquot_schema.views.forecasts import ForecastView
from aliquot_schema.views.live import LogChunkView, SessionLogView, StreamPosition
from aliquot_schema.views.observation import ObservedGpuView, ObservedWeekView
from aliquot_schema.views.preview import SessionPreview
from aliquot_schema.views.server import RayView, SlotCapacityView
from aliquot_schema.views.sessions import Page, QueueEntryView, QueueUpdateView, SessionView, SlotAmountView
from aliquot_schema.views.statistics import ClusterView, GpusView, IdleBehindQuotasView, QueueStatisticsView

T = TypeVar("T")

HUGE_TEXT = "x" * 100_000


@dataclass
class FakeCluster:
    """State shared by the fakes."""

    agents: list[AgentView] = field(default_factory=lambda: [views.agent(1), views.agent(2)])
    sessions: list[SessionView] = field(default_factory=list)
    revision: int = 41
    updates: list[QueueUpdateView] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    callers: list[Caller] = field(default_factory=list)

    async def publish(self, session: SessionView, kind: str) -> None:
        """Commit a change, and wake the followers."""
        async with self.news:
            self.revision += 1
            self.updates.append(
                QueueUpdateView(
                    event_number=self.revision,
                    at=views.MOMENT,
                    kind=kind,
                    session=session,
                    pending=sum(item.state in PENDING for item in self.sessions),
                )
            )
            self.news.notify_all()


@dataclass
class FakeReader:
    """Answers from the lists. `fault` is raised by every call, like a bug in the service."""

    cluster: FakeCluster
    fault: Exception | None = None
    hangs: bool = False

    async def at_revision(self, min_revision: int | None) -> int:
        if self.fault is not None:
            raise self.fault
        if self.hangs:
            await asyncio.Event().wait()
        if (min_revision or 0) > self.cluster.revision:
            raise Unavailable(f"event {min_revision} is not known yet")
        return self.cluster.revision

    def agents(self, caller: Caller, where: AgentFilter, order: str, page: PageRequest) -> Page[AgentView]:
        self.cluster.callers.append(caller)
        found = [item for item in self.cluster.agents if not where.ids or item.id in where.ids]
        found = [item for item in found if not where.states or item.state in where.states]
        return self._page(found, [item.id for item in found], page)

    def cluster(self, caller: Caller, ray: RayView | None) -> ClusterView:
        capacity = SlotCapacityView(slot="cuda.device", total="2.00", available="1.80", allocated="0.20")
        gpus = GpusView(total_gpus=2.0, available_gpus=1.8, allocated_gpus=0.2, nodes=(), gpus=())
        return ClusterView(ray=ray, capacity=(capacity,), look=lambda: gpus)

    def pools(self, caller: Caller, *, name: str | None) -> tuple[ClusterPoolView, ...]:
        return ()

    def projects(self, caller: Caller, *, name: str | None) -> tuple[ProjectView, ...]:
        return ()

    def observed_gpus(self, caller: Caller) -> tuple[ObservedGpuView, ...]:
        return ()

    def observed_week(self, caller: Caller, week: str | None) -> ObservedWeekView | None:
        return None

    def idle_behind_quotas(self, caller: Caller) -> IdleBehindQuotasView | None:
        return None

    def queue_statistics(self, caller: Caller) -> QueueStatisticsView:
        return QueueStatisticsView(
            revision=self.cluster.revision,
            total_queued=len(self.cluster.sessions),
            oldest_wait=None,
            window=3600.0,
            started=0,
            finished=0,
            average_wait_time=None,
            median_wait_time=None,
            throughput=0.0,
            wait_distribution=(),
        )

    def agent(self, caller: Caller, agent_id: str) -> AgentView | None:
        self.cluster.callers.append(caller)
        return next((item for item in self.cluster.agents if item.id == agent_id), None)

    async def sessions(self, caller: Caller, where: SessionFilter, order: str, page: PageRequest) -> Page[SessionView]:
        found = [item for item in self.cluster.sessions if not where.states or item.state in where.states]
        found = [item for item in found if where.run_id in (None, item.run_id)]
        ordered = found if order == SessionOrder.OLDEST else found[::-1]
        return self._page(ordered, [item.id for item in ordered], page)

    async def session(self, caller: Caller, session_id: str) -> SessionView | None:
        return next((item for item in self.cluster.sessions if item.id == session_id), None)

    async def session_why(self, caller: Caller, session_id: str) -> ExplanationView | None:
        return None

    async def what_if(self, caller: Caller, asked: WhatIf) -> WhatIfView:
        raise NotFound("there is no agent", kind="agent", id=asked.drain or "")

    async def preview_session(self, caller: Caller, request: NewSession) -> SessionPreview:
        if request.cluster_size > len(self.cluster.agents):
            limit = str(len(self.cluster.agents))
            raise ImpossibleRequest("slots: no room", slot="cpu", requested=str(request.cluster_size), limit=limit)
        return views.preview()

    async def preview_forecasts(
        self, caller: Caller, requests: Sequence[NewSession]
    ) -> tuple[ForecastView | AliquotError, ...]:
        return tuple(ImpossibleRequest("slots: no room", slot="cpu", requested="9", limit="1") for _ in requests)

    def queue(self, caller: Caller, page: PageRequest) -> Page[QueueEntryView]:
        waiting = [item for item in self.cluster.sessions if item.state in PENDING]
        entries = [QueueEntryView(position=place, session=item) for place, item in enumerate(waiting, 1)]
        return self._page(entries, [item.id for item in waiting], page)

    def _page(self, items: Sequence[T], keys: Sequence[str], page: PageRequest) -> Page[T]:
        cursors = [base64.urlsafe_b64encode(key.encode()).decode() for key in keys]
        if page.after is not None and page.after not in cursors:
            raise InvalidRequest("the cursor is not one that this list gave", field="after")
        start = cursors.index(page.after) + 1 if page.after is not None else 0
        end = start + page.first
        return Page(
            items=tuple(items[start:end]),
            cursors=tuple(cursors[start:end]),
            has_next=end < len(items),
            has_previous=start > 0,
            total_count=len(items),
            revision=self.cluster.revision,
        )


@dataclass
class FakeWriter:
    """Records its calls. `refuses` is raised instead; `gate` delays changes until it is set."""

    cluster: FakeCluster
    refuses: Exception | None = None
    gate: asyncio.Event | None = None
    requests: list[NewSession] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged:
        self.requests.append(request)
        self.asked.set()
        if self.refuses is not None:
            raise self.refuses
        if self.gate is not None:
            await self.gate.wait()
        made = replace(
            views.session(len(self.cluster.sessions) + 1),
            owner=caller.user,
            name=request.name,
            run_id=request.run_id,
            command=request.argv or ("/bin/sh", "-c", request.shell or ""),
            priority=Priority[request.priority.upper()],
            slots=tuple(SlotAmountView(slot=slot, amount=amount) for slot, amount in request.slots),
        )
        self.cluster.sessions.append(made)
        await self.cluster.publish(made, "session.queued")
        self.finished.set()
        return SessionChanged(session=made, revision=self.cluster.revision, created=True)

    async def create_sessions(self, caller: Caller, requests: Sequence[NewSession]) -> SessionsCreated:
        results = tuple([await self.create_session(caller, request) for request in requests])
        return SessionsCreated(results=results, revision=self.cluster.revision)

    async def hold_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        held = replace(self._current(session_id, expected_version), state=SessionState.HELD, held_by=caller.user)
        return await self._change(held, "session.held")

    async def release_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        free = replace(self._current(session_id, expected_version), state=SessionState.QUEUED, held_by=None)
        return await self._change(free, "session.released")

    async def retry_session(
        self, caller: Caller, session_id: str, expected_version: int | None, *, from_checkpoint: bool = False
    ) -> SessionChanged:
        again = replace(self._current(session_id, expected_version), state=SessionState.QUEUED, failure=None)
        return await self._change(again, "session.retried")

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        current = self._current(session_id, expected_version)
        if current.state is SessionState.CANCELED:
            raise StateConflict("it is canceled already", id=session_id, state=current.state)
        return await self._change(replace(current, state=SessionState.CANCELED), "session.canceled")

    async def change_sessions(self, caller: Caller, asked: SessionsAction) -> SessionOutcomes:
        assert asked.action is SessionAction.CANCEL
        results = [await self.cancel_session(caller, session_id, None) for session_id in asked.ids]
        outcomes = tuple(SessionOutcome(id=one.session.id, session=one.session) for one in results)
        return SessionOutcomes(results=outcomes, refused=0, revision=self.cluster.revision)

    async def update_session_priorities(
        self, caller: Caller, session_ids: Sequence[str], priority: str
    ) -> SessionsChanged:
        for session_id in session_ids:
            await self.update_session_priority(caller, session_id, priority, None)
        return SessionsChanged(changed=len(session_ids), revision=self.cluster.revision)

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged:
        current = self._current(session_id, expected_version)
        return await self._change(replace(current, priority=Priority[priority.upper()]), "session.prioritized")

    async def update_session(
        self, caller: Caller, session_id: str, amendment: SessionAmendment, expected_version: int | None
    ) -> SessionChanged:
        current = self._current(session_id, expected_version)
        limit = current.time_limit if amendment.time_limit is None else amendment.time_limit
        return await self._change(replace(current, time_limit=limit), "session.request_changed")

    async def extend_session(
        self, caller: Caller, session_id: str, seconds: float, expected_version: int | None
    ) -> SessionChanged:
        current = self._current(session_id, expected_version)
        longer = replace(current, time_limit=(current.time_limit or 0) + seconds)
        return await self._change(longer, "session.extended")

    async def keep_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged:
        return await self._change(self._current(session_id, expected_version), "action.idle_kept")

    def _current(self, session_id: str, expected_version: int | None) -> SessionView:
        if self.refuses is not None:
            raise self.refuses
        current = next((item for item in self.cluster.sessions if item.id == session_id), None)
        if current is None:
            raise NotFound(f"there is no session {session_id}", kind="session", id=session_id)
        if expected_version not in (None, current.version):
            raise VersionConflict(
                "it changed since", id=session_id, expected=expected_version or 0, actual=current.version
            )
        return current

    async def _change(self, session: SessionView, kind: str) -> SessionChanged:
        changed = replace(session, version=session.version + 1)
        self.cluster.sessions = [changed if item.id == changed.id else item for item in self.cluster.sessions]
        await self.cluster.publish(changed, kind)
        return SessionChanged(session=changed, revision=self.cluster.revision)


@dataclass
class FakeWatcher:
    """Follows the list of updates; `session_logs` of session `endless` never ends and counts its chunks."""

    cluster: FakeCluster
    given: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def place(self, stream: str, after: int | None) -> StreamPosition:
        if after is not None and not 0 <= after <= self.cluster.revision:
            raise InvalidRequest(f"event {after} is not known yet", field="after")
        return StreamPosition(known=self.cluster.revision if after is None else after, newest=self.cluster.revision)

    async def queue_updates(self, caller: Caller, after: int | None) -> AsyncIterator[QueueUpdateView]:
        number = self.cluster.revision if after is None else after
        if number > self.cluster.revision:
            raise InvalidRequest(f"event {number} is not known yet", field="after")
        self.started.set()
        try:
            while True:
                async with self.cluster.news:
                    await self.cluster.news.wait_for(lambda: self.cluster.revision > number)  # noqa: B023
                for update in [item for item in self.cluster.updates if item.event_number > number]:
                    number = update.event_number
                    yield update
        finally:
            self.closed.set()

    async def session_logs(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int
    ) -> AsyncIterator[LogChunkView]:
        if session_id == "endless":
            async for chunk in self._endless():
                yield chunk
            return
        if session_id == "broken":
            raise RuntimeError("the secret path /var/lib/secret is gone")
        text = "one\ntwo\n"
        if rank > 0:
            raise NotFound(f"there is no rank {rank}", kind="kernel", id=f"{session_id}.1.{rank}")
        for start, end in ((offset, max(offset, 4)), (max(offset, 4), len(text))):
            yield _chunk(session_id, start, text[start:end], at_end=end == len(text))

    async def session_log(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int, bytes_max: int
    ) -> SessionLogView:
        text = "one\ntwo\n"
        begin = max(0, len(text) + offset) if offset < 0 else offset
        end = min(len(text), begin + bytes_max)
        return SessionLogView(
            session_id=session_id,
            kernel_id=f"{session_id}.1.{rank}",
            rank=rank,
            attempt=1,
            offset=begin,
            next_offset=end,
            length=len(text),
            left_out=0,
            has_more=end < len(text),
            text=text[begin:end],
            at_end=end == len(text),
        )

    async def _endless(self) -> AsyncIterator[LogChunkView]:
        try:
            while True:
                yield _chunk("endless", self.given * len(HUGE_TEXT), HUGE_TEXT, at_end=False)
                self.given += 1
        finally:
            self.closed.set()


def _chunk(session_id: str, offset: int, text: str, *, at_end: bool) -> LogChunkView:
    return LogChunkView(
        session_id=session_id,
        kernel_id=f"{session_id}.1.0",
        rank=0,
        offset=offset,
        next_offset=offset + len(text),
        text=text,
        at_end=at_end,
    )
