"""Resolver context: the ports through which resolvers call the server, and the context they share.

The server's `service` package implements the ports. Mutating methods return after the commit. Methods that a caller's
role does not permit raise `Forbidden`; see `identity.access` for the roles.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aliquot_schema.cluster.results import ResultListing
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.administration_ports import AccountsPort, AdministrationPort
from aliquot_schema.metrics import MetricReport
from aliquot_schema.requests import (
    AgentFilter,
    BookingFile,
    Caller,
    NewBooking,
    NewSession,
    PageRequest,
    SessionAmendment,
    SessionChanged,
    SessionFilter,
    SessionOutcomes,
    SessionsAction,
    SessionsChanged,
    SessionsCreated,
    WhatIf,
)
from aliquot_schema.views.admin import (
    ClusterPoolView,
    ProjectView,
)
from aliquot_schema.views.agents import AgentView
from aliquot_schema.views.audit import (
    ChangeView,
    CursorPage,
    SessionStepView,
)
from aliquot_schema.views.bookings import BookingChanged, BookingEffectView, BookingImportView, BookingView
from aliquot_schema.views.explanations import ExplanationView, WhatIfView
from aliquot_schema.views.forecasts import ForecastAccuracyView, ForecastView
from aliquot_schema.views.live import DeviceUpdateView, LogChunkView, SessionLogView, SessionUpdateView, StreamPosition
from aliquot_schema.views.observation import ObservedGpuView, ObservedWeekView
from aliquot_schema.views.preview import ExternalAllocationView, NewExternalAllocation, SessionPreview
from aliquot_schema.views.results import TaskMetricsPage
from aliquot_schema.views.server import ALONE, OrchestratorView, RayView
from aliquot_schema.views.sessions import Page, QueueEntryView, QueueUpdateView, SessionView
from aliquot_schema.views.statistics import (
    ClusterView,
    HistoryView,
    IdleBehindQuotasView,
    QueueStatisticsView,
    SessionStatsView,
    UsageBy,
    UsageHistoryView,
)
from aliquot_schema.views.templates import SessionTemplateView, TemplateDeleted, TemplateSaved


class HistoryPort(Protocol):
    """Time series.

    Raises:
        InvalidRequest: the period ends before it begins, or has too many points.
        Unavailable: the measurements cannot be read.
    """

    async def device_history(
        self,
        caller: Caller,
        agent_id: str,
        *,
        device_ids: tuple[str, ...] | None,
        since: datetime | None,
        until: datetime | None,
        points: int,
    ) -> HistoryView:
        """Measurements of an agent's accelerators. Raises NotFound for an agent that never existed."""

    async def queue_history(
        self, caller: Caller, *, since: datetime | None, until: datetime | None, points: int
    ) -> HistoryView:
        """Series of the queue and of the cluster's GPUs."""

    async def session_history(self, caller: Caller, session_id: str, *, points: int) -> HistoryView:
        """Measurements of a session's devices while it held them. Raises NotFound, Forbidden."""

    async def session_stats(self, caller: Caller, session_id: str) -> SessionStatsView:
        """What a session used of what it held. Raises as `session_history`."""

    async def usage_history(
        self, caller: Caller, *, by: UsageBy, since: datetime | None, until: datetime | None, step: float | None
    ) -> UsageHistoryView:
        """Usage per step."""


class QueriesPort(Protocol):
    """Queries. All of one request are answered at the same revision."""

    async def at_revision(self, min_revision: int | None) -> int:
        """Wait until the state includes an event number, and return the current one.

        Raises:
            Unavailable: the wait timed out.
        """

    def agents(self, caller: Caller, where: AgentFilter, order: str, page: PageRequest) -> Page[AgentView]:
        """`order` is one of `AgentOrder`. Raises InvalidRequest for a bad cursor."""

    def agent(self, caller: Caller, agent_id: str) -> AgentView | None: ...

    def cluster(self, caller: Caller, ray: RayView | None) -> ClusterView:
        """Totals of all reachable agents."""

    def pools(self, caller: Caller, *, name: str | None) -> tuple[ClusterPoolView, ...]:
        """All pools, or the one of this name; empty if there is none."""

    def projects(self, caller: Caller, *, name: str | None) -> tuple[ProjectView, ...]:
        """All known projects, or the one of this name."""

    def queue_statistics(self, caller: Caller) -> QueueStatisticsView:
        """The queue now, and its throughput in the last hour."""

    def forecast_accuracy(self, caller: Caller) -> ForecastAccuracyView:
        """How right forecasts of starts were."""

    def observed_gpus(self, caller: Caller) -> tuple[ObservedGpuView, ...]:
        """Who uses which GPU now."""

    def observed_week(self, caller: Caller, week: str | None) -> ObservedWeekView | None:
        """GPU-hours by person. Raises InvalidRequest."""

    def idle_behind_quotas(self, caller: Caller) -> IdleBehindQuotasView | None:
        """None if no GPUs are idle behind quotas."""

    async def sessions(self, caller: Caller, where: SessionFilter, order: str, page: PageRequest) -> Page[SessionView]:
        """`order` is one of `SessionOrder`. Raises InvalidRequest for a bad cursor."""

    async def session(self, caller: Caller, session_id: str) -> SessionView | None: ...

    async def session_steps(self, caller: Caller, session_id: str, page: PageRequest) -> CursorPage[SessionStepView]:
        """Newest first; empty for an unknown session. Raises InvalidRequest for a bad cursor."""

    async def preview_session(self, caller: Caller, request: NewSession) -> SessionPreview:
        """Raises the errors of `SessionsPort.create_session`; changes nothing."""

    async def preview_forecasts(
        self, caller: Caller, requests: Sequence[NewSession]
    ) -> tuple[ForecastView | AliquotError, ...]:
        """When each would start alone, or why it would be refused. Raises LimitExceeded and Forbidden."""

    async def session_why(self, caller: Caller, session_id: str) -> ExplanationView | None:
        """Why a session waits and what would help; None for a session that is not in memory."""

    async def what_if(self, caller: Caller, asked: WhatIf) -> WhatIfView:
        """What changes would mean for waiting sessions. Raises NotFound, and the errors of `preview_session`."""

    def queue(self, caller: Caller, page: PageRequest) -> Page[QueueEntryView]:
        """Pending sessions in scheduling order. Raises InvalidRequest for a bad cursor."""


class SessionsPort(Protocol):
    """Mutations of sessions. Each raises the expected errors of `aliquot_schema.errors`."""

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged: ...

    async def create_sessions(self, caller: Caller, requests: Sequence[NewSession]) -> SessionsCreated: ...

    async def hold_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def release_session(
        self, caller: Caller, session_id: str, expected_version: int | None
    ) -> SessionChanged: ...

    async def retry_session(
        self, caller: Caller, session_id: str, expected_version: int | None, *, from_checkpoint: bool = False
    ) -> SessionChanged: ...

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def change_sessions(self, caller: Caller, asked: SessionsAction) -> SessionOutcomes: ...

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged: ...

    async def update_session_priorities(
        self, caller: Caller, session_ids: Sequence[str], priority: str
    ) -> SessionsChanged: ...

    async def update_session(
        self, caller: Caller, session_id: str, amendment: SessionAmendment, expected_version: int | None
    ) -> SessionChanged: ...

    async def extend_session(
        self, caller: Caller, session_id: str, seconds: float, expected_version: int | None
    ) -> SessionChanged: ...

    async def keep_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...


class SubscriptionsPort(Protocol):
    """Subscriptions, from now on or after a known number."""

    def place(self, stream: str, after: int | None) -> StreamPosition:
        """Start position in a numbered stream for a subscriber that has the items up to `after`.

        Raises:
            InvalidRequest: the number is above the newest.
        """

    def queue_updates(self, caller: Caller, after: int | None) -> AsyncIterator[QueueUpdateView]:
        """Every committed change of any session, in order, without gaps or repeats.

        Raises:
            InvalidRequest: the number is above the newest event, or past retention.
        """

    def session_updates(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """A snapshot of a session unless `after` is given, then every change of it and of its kernels.

        Raises:
            InvalidRequest: as in `queue_updates`.
            NotFound: there is no such session.
        """

    def device_updates(self, caller: Caller, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """A snapshot of all devices, or the changes after a number; then changes as they happen."""

    def events(self, caller: Caller, kinds: Sequence[str], after: int | None) -> AsyncIterator[ChangeView]:
        """The event log as it grows, of some kinds, or all. For operators. Raises as `queue_updates` does."""

    def session_logs(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int
    ) -> AsyncIterator[LogChunkView]:
        """The output of one rank, followed until its end. Waits for a session that has not started.

        Raises:
            NotFound: no such session, rank or attempt.
        """

    async def session_log(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int, bytes_max: int
    ) -> SessionLogView:
        """A piece of one rank's output so far; a negative offset counts from the end.

        Raises:
            NotFound: as in `session_logs`.
            Unavailable: the agent is unreachable.
        """


class TemplatesPort(Protocol):
    """Session templates of projects."""

    def templates(self, caller: Caller) -> tuple[SessionTemplateView, ...]: ...

    async def save_template(self, caller: Caller, project: str, name: str, fields: str) -> TemplateSaved: ...

    async def delete_template(self, caller: Caller, project: str, name: str) -> TemplateDeleted:
        """Raises NotFound."""


class FilesPort(Protocol):
    """Results of sessions."""

    async def listing(self, caller: Caller, session_id: str, *, rank: int) -> ResultListing:
        """The files below RESULT_DIR. Raises NotFound, Forbidden, StateConflict, Unavailable."""

    async def metrics(self, caller: Caller, session_id: str, *, rank: int) -> MetricReport:
        """The metrics in the output of a rank. Raises as `listing`."""

    async def task_metrics(self, caller: Caller, array_id: str, *, first: int, after: int | None) -> TaskMetricsPage:
        """The metrics of tasks of a job array. Raises NotFound, Forbidden."""


class ExternalAllocationsPort(Protocol):
    """External allocations: GPUs for processes that Aliquot does not start."""

    async def allocate(self, caller: Caller, asked: NewExternalAllocation) -> ExternalAllocationView:
        """Allocate immediately or fail. Raises NotPlaced, IdempotencyMismatch and the errors of `create_session`."""

    async def release(self, caller: Caller, job_id: str) -> ExternalAllocationView:
        """Raises NotFound."""

    def gpu_slots(self, count: str) -> Sequence[tuple[str, str]]:
        """Slots for a number of GPUs. Raises InvalidAmount."""


class BookingsPort(Protocol):
    """Bookings. Each mutation raises `NotFound`, `Forbidden`, `StateConflict`, `InvalidRequest` and `Unavailable`."""

    async def reserve(self, caller: Caller, asked: NewBooking) -> BookingChanged:
        """Raises BookingRefused."""

    async def extend(self, caller: Caller, name: str, ends_at: datetime) -> BookingChanged:
        """Raises BookingRefused; the booking then stays as it is."""

    async def give_back(self, caller: Caller, name: str, *, series: bool) -> BookingChanged:
        """`series`: also all later bookings of the same recurring one."""

    def bookings(
        self, caller: Caller, *, since: datetime | None, until: datetime | None, owner: str | None, with_ended: bool
    ) -> tuple[BookingView, ...]:
        """The calendar, the earliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the server that resolvers use."""

    queries: QueriesPort
    sessions: SessionsPort
    subscriptions: SubscriptionsPort
    administration: AdministrationPort
    accounts: AccountsPort
    ray: Callable[[], RayView | None] = lambda: None
    """Current state of Ray; None = not used."""
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE
    """Current state of the servers."""
    external_allocations: ExternalAllocationsPort | None = None
    """None = external allocations are disabled, and there is no REST API."""
    bookings: BookingsPort | None = None
    """None = there are no bookings on this server."""
    booking_import: Callable[[Caller, BookingFile], Awaitable[BookingImportView]] | None = None
    """Makes bookings of the rows of a file; None as for `bookings`."""
    booking_effect: Callable[[Caller, NewBooking], Awaitable[BookingEffectView]] | None = None
    """What a booking would do that is not made yet; None as for `bookings`."""
    history: HistoryPort | None = None
    """None = no history is stored."""
    files: FilesPort | None = None
    """None = there are no agents whose files could be read."""
    templates: TemplatesPort | None = None
    """None = no templates are stored."""


@dataclass(slots=True, kw_only=True)
class Context:
    """Context of a request."""

    caller: Caller
    services: Services
