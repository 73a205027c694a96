"""What resolvers ask of the server. The server's `service` package answers."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aliquot_schema.audit_views import ChangeView, Reel
from aliquot_schema.division_views import ClusterPoolView, ProjectView
from aliquot_schema.graphql.accounts_port import Accountant as Accountant
from aliquot_schema.graphql.administration_port import Administrator as Administrator
from aliquot_schema.graphql.history_port import Historian as Historian
from aliquot_schema.live_views import DeviceUpdateView, Place, SessionUpdateView
from aliquot_schema.log_views import SessionLogView
from aliquot_schema.outside_views import NewOutside, OutsideView
from aliquot_schema.preview_views import SessionPreview
from aliquot_schema.ray_views import RayView as RayView
from aliquot_schema.requests import AgentFilter as AgentFilter
from aliquot_schema.requests import Caller as Caller
from aliquot_schema.requests import NewSession as NewSession
from aliquot_schema.requests import PageRequest as PageRequest
from aliquot_schema.requests import SessionChanged as SessionChanged
from aliquot_schema.requests import SessionFilter as SessionFilter
from aliquot_schema.requests import SessionsCreated as SessionsCreated
from aliquot_schema.server_views import ALONE, OrchestratorView
from aliquot_schema.statistics_views import ClusterView, QueueStatisticsView
from aliquot_schema.step_views import SessionStepView
from aliquot_schema.views import AgentView, LogChunkView, Page, QueueEntryView, QueueUpdateView, SessionView


class Reader(Protocol):
    """Questions. One request is answered from one revision."""

    async def at_revision(self, min_revision: int | None) -> int:
        """Wait until the view holds an event number, and return the one it holds.

        Raises:
            Unavailable: it did not get there in time.
        """

    def agents(self, caller: Caller, where: AgentFilter, order: str, page: PageRequest) -> Page[AgentView]:
        """`order` is one of `AgentOrder`. Raises InvalidRequest for a bad cursor."""

    def agent(self, caller: Caller, agent_id: str) -> AgentView | None: ...

    def cluster(self, caller: Caller, ray: RayView | None) -> ClusterView:
        """What all agents have together that can be asked."""

    def pools(self, caller: Caller, *, name: str | None) -> tuple[ClusterPoolView, ...]:
        """All pools, or the one of this name; nothing when there is none."""

    def projects(self, caller: Caller, *, name: str | None) -> tuple[ProjectView, ...]:
        """All projects that anything is known of, or the one of this name."""

    def queue_statistics(self, caller: Caller) -> QueueStatisticsView:
        """The queue now, and how it went in the hour before."""

    async def sessions(self, caller: Caller, where: SessionFilter, order: str, page: PageRequest) -> Page[SessionView]:
        """`order` is one of `SessionOrder`. Raises InvalidRequest for a bad cursor."""

    async def session(self, caller: Caller, session_id: str) -> SessionView | None: ...

    async def session_steps(self, caller: Caller, session_id: str, page: PageRequest) -> Reel[SessionStepView]:
        """The newest first; none of a session that there is not. Raises InvalidRequest for a bad cursor."""

    async def preview_session(self, caller: Caller, request: NewSession) -> SessionPreview:
        """Raises what `Writer.create_session` would raise, and changes nothing."""

    def queue(self, caller: Caller, page: PageRequest) -> Page[QueueEntryView]:
        """Pending sessions in the order in which the allocator looks. Raises InvalidRequest for a bad cursor."""


class Writer(Protocol):
    """Changes. Each raises the expected errors of `aliquot_schema.errors`, and returns after the commit."""

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged: ...

    async def create_sessions(self, caller: Caller, requests: Sequence[NewSession]) -> SessionsCreated: ...

    async def hold_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def release_session(
        self, caller: Caller, session_id: str, expected_version: int | None
    ) -> SessionChanged: ...

    async def retry_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged: ...


class Watcher(Protocol):
    """What happens, from now on or from a number on."""

    def place(self, stream: str, after: int | None) -> Place:
        """Where somebody begins who follows this numbered stream, and says that he knows a number.

        Raises:
            InvalidRequest: the number is above the last one.
        """

    def queue_updates(self, caller: Caller, after: int | None) -> AsyncIterator[QueueUpdateView]:
        """Every committed change of a session, in order, without gaps or repeats.

        Raises:
            InvalidRequest: the number is above the last event, or below what is kept.
        """

    def session_updates(self, caller: Caller, session_id: str, after: int | None) -> AsyncIterator[SessionUpdateView]:
        """How a session stands, unless a number is known, and then every change of it and of its kernels.

        Raises:
            InvalidRequest: as of `queue_updates`.
            NotFound: there is no such session.
        """

    def device_updates(self, caller: Caller, after: int | None) -> AsyncIterator[DeviceUpdateView]:
        """How all devices stand, or what changed since a number; then what changes."""

    def events(self, caller: Caller, kinds: Sequence[str], after: int | None) -> AsyncIterator[ChangeView]:
        """The event log as it grows, of these kinds, or all of it.

        Raises:
            Forbidden: for operators.
            InvalidRequest: as of `queue_updates`.
        """

    def session_logs(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int
    ) -> AsyncIterator[LogChunkView]:
        """The output of one rank, followed until its end; a session that waits is waited for.

        Raises:
            NotFound: no such session, rank or attempt.
        """

    async def session_log(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int, bytes_max: int
    ) -> SessionLogView:
        """A piece of what one rank has printed; a negative offset counts from the end. Nothing is waited for.

        Raises:
            NotFound: as of `session_logs`.
            Unavailable: its agent cannot be asked.
        """


class Outsider(Protocol):
    """GPUs for work that is run outside."""

    async def allocate(self, caller: Caller, asked: NewOutside) -> OutsideView:
        """At once or not at all. Raises NotPlaced, IdempotencyMismatch, and what `Writer.create_session` raises."""

    async def release(self, caller: Caller, job_id: str) -> OutsideView:
        """Raises NotFound."""

    def gpu_slots(self, count: str) -> Sequence[tuple[str, str]]:
        """So many GPUs in the slots of the cluster. Raises InvalidAmount."""


@dataclass(slots=True, kw_only=True)
class Context:
    """What every resolver is given."""

    caller: Caller
    reader: Reader
    writer: Writer
    watcher: Watcher
    admin: Administrator
    accounts: Accountant
    ray: Callable[[], RayView | None] = lambda: None
    """How Ray is now; None where it is not used."""
    orchestrator: Callable[[], OrchestratorView] = lambda: ALONE
    """Who leads."""
    outside: Outsider | None = None
    """None: nothing is given to work that is run outside."""
    historian: Historian | None = None
    """None: nothing is kept of what was measured."""
