"""What resolvers ask of the server. The server's `api` package answers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aliquot_schema.ids import UserId
from aliquot_schema.states import AgentState, SessionState
from aliquot_schema.views import (
    AgentView,
    LogChunkView,
    Page,
    QueueEntryView,
    QueueUpdateView,
    SessionView,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks."""

    user: UserId
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which piece of a list."""

    first: int
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFilter:
    """Which agents. Empty tuples do not filter."""

    ids: tuple[str, ...] = ()
    states: tuple[AgentState, ...] = ()
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions. Empty tuples and None do not filter."""

    ids: tuple[str, ...] = ()
    states: tuple[SessionState, ...] = ()
    owners: tuple[str, ...] = ()
    run_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A request as it came in: nothing is validated yet, amounts are text."""

    argv: tuple[str, ...] | None
    shell: str | None
    slots: Sequence[tuple[str, str]]
    cluster_size: int = 1
    gpu_memory_gb: str | None = None
    environment: Sequence[tuple[str, str]] = ()
    working_directory: str | None = None
    priority: str = "normal"
    estimated_duration: float | None = None
    time_limit: float | None = None
    max_retries: int = 0
    preemptible: bool = False
    depends_on: Sequence[tuple[str, str]] = ()
    """(session id, condition)."""
    name: str | None = None
    run_id: str | None = None
    tags: Sequence[tuple[str, str]] = ()
    idempotency_key: str | None = None
    unsupported: Mapping[str, object] = field(default_factory=dict)
    """Fields that were set and that nothing acts on yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanged:
    """What a mutation did."""

    session: SessionView
    revision: int
    created: bool = False
    """False when an idempotency key answered with what was there."""


class Reader(Protocol):
    """Questions. One request is answered from one revision."""

    async def at_revision(self, min_revision: int | None) -> int:
        """Wait until the view holds an event number, and return the one it holds.

        Raises:
            Unavailable: it did not get there in time.
        """

    def agents(self, caller: Caller, where: AgentFilter, order: str, page: PageRequest) -> Page[AgentView]:
        """Raises InvalidRequest for a bad cursor."""

    def agent(self, caller: Caller, agent_id: str) -> AgentView | None: ...

    async def sessions(self, caller: Caller, where: SessionFilter, order: str, page: PageRequest) -> Page[SessionView]:
        """Raises InvalidRequest for a bad cursor."""

    async def session(self, caller: Caller, session_id: str) -> SessionView | None: ...

    def queue(self, caller: Caller, page: PageRequest) -> Page[QueueEntryView]:
        """Pending sessions in the order in which the allocator looks. Raises InvalidRequest for a bad cursor."""


class Writer(Protocol):
    """Changes. Each raises the expected errors of `aliquot_schema.errors`, and returns after the commit."""

    async def create_session(self, caller: Caller, request: NewSession) -> SessionChanged: ...

    async def cancel_session(self, caller: Caller, session_id: str, expected_version: int | None) -> SessionChanged: ...

    async def update_session_priority(
        self, caller: Caller, session_id: str, priority: str, expected_version: int | None
    ) -> SessionChanged: ...


class Watcher(Protocol):
    """What happens from now on, or from an event number on."""

    def queue_updates(self, caller: Caller, after: int | None) -> AsyncIterator[QueueUpdateView]:
        """Every committed change of a session, in order, without gaps or repeats.

        Raises:
            InvalidRequest: the number is above the last event, or below what is kept.
        """

    def session_logs(
        self, caller: Caller, session_id: str, *, rank: int, attempt: int | None, offset: int
    ) -> AsyncIterator[LogChunkView]:
        """The output of one rank, followed until its end; a session that waits is waited for.

        Raises:
            NotFound: no such session, rank or attempt.
        """


@dataclass(slots=True, kw_only=True)
class Context:
    """What every resolver is given."""

    caller: Caller
    reader: Reader
    writer: Writer
    watcher: Watcher
