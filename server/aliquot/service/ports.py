"""Ports of the service: clock, ids, store and executor. The `app` package provides the implementations."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from aliquot_schema.cluster.launching import AgentMessage, Inventory, LaunchOrder, LogChunk
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import AgentId, KernelId, ProjectId, RequestId, SessionId, UserId
from aliquot_schema.requests import ALL_SESSIONS, SessionFilter, SessionOrder
from aliquot_schema.sessions import Session


class Clock(Protocol):
    """Wall time, monotonic time and sleeping."""

    def now_us(self) -> int:
        """Wall time, microseconds UTC. Decreases only by `correct`."""

    def wall_us(self) -> int:
        """Raw wall time of the machine, which may be set; retention uses it."""

    def leap_us(self) -> int:
        """How far the wall clock was set ahead of `now_us`, negative = back; 0 = at most a minute."""

    def correct(self, at_us: int) -> None:
        """Continue from this time: a correction was committed."""

    def monotonic(self) -> float:
        """Monotonic seconds, for durations and time-outs."""

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the event loop."""


class Ids(Protocol):
    """Generator of identifiers."""

    def new(self, prefix: str) -> str:
        """`<prefix><uuid7>`; later ones sort after earlier ones of the same process."""


class RowWrite(Struct, frozen=True, kw_only=True):
    """One row to insert or replace, and its event.

    `record.version` is the new version: 1 inserts, n > 1 replaces exactly version n - 1.
    """

    record: Record
    kind: str
    """Kind of the event: `session.queued`, `lease.granted`, ..."""


class Batch(Struct, frozen=True, kw_only=True):
    """Writes committed atomically, in order."""

    writes: tuple[RowWrite, ...]
    at_us: int
    actor: str
    """A user id, or `system:<part>`."""
    request_id: RequestId | None = None
    pass_number: int | None = None
    epoch: int | None = None
    """The leader's epoch, checked in the transaction; None = any server may commit this."""
    seen: int = 0
    """Number of the last event that the writer had read; a database without it accepts nothing."""


class LoadedRows(Struct, frozen=True, kw_only=True):
    """What a server loads at start: all live records, and the newest ended sessions."""

    revision: int
    """The number of the last event."""
    epoch: int
    last_at_us: int
    """Time of the last event; later passes never get an earlier time."""
    last_pass: int
    """The highest pass number in the event log."""
    records: tuple[Record, ...]
    """Agents and slots; sessions that have not ended or hold devices, and the newest ended ones; the kernels and leases
    of these sessions' newest attempts; and all open leases."""
    ended_complete: bool
    """Whether `records` holds all ended sessions."""


class StaleVersion(Exception):
    """A row was changed since it was read; nothing of the batch was written."""


class DuplicateKey(Exception):
    """A row with this id, or with this owner's idempotency key, exists; nothing of the batch was written."""


class NotLeader(Exception):
    """The batch's epoch is not the current one; nothing of it was written."""


class StoreUnavailable(Unavailable):
    """The database cannot be reached or written; whether the batch was written is unknown."""


class MembershipFilter(Struct, frozen=True, kw_only=True):
    """Sessions of a user, and of the projects that the user is a member of."""

    owner: UserId
    projects: tuple[ProjectId, ...]

    def has(self, session: Session) -> bool:
        """Whether a session belongs to the user or to one of the projects."""
        return session.owner == self.owner or session.project in self.projects


SortKey = tuple[int | str | None, ...]
"""Sort key of a session; its id is the last element. See `aliquot.service.views.session_list`."""


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Filter, order and page of a session list."""

    where: SessionFilter = ALL_SESSIONS
    """`agents` and `nodes` of the filter are ignored here, see `agents`."""
    members_only: MembershipFilter | None = None
    agents: tuple[AgentId, ...] | None = None
    """The agents of `where.agents` on `where.nodes`; None = any."""
    order: SessionOrder = SessionOrder.NEWEST
    after: SortKey | None = None
    """List sessions after this key in the order."""
    limit: int = 100


class Store(Protocol):
    """The durable state. Every method may raise `StoreUnavailable`."""

    async def open(self) -> LoadedRows:
        """Open the migrated database, increment the epoch, and load the state.

        Raises:
            StoreUnavailable: the database cannot be opened; the message says why and what to do.
        """

    async def close(self) -> None:
        """Finish accepted commits, and close."""

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        """Write a batch durably and return its events, one per write, numbered without gaps in commit order.

        Concurrent calls may share a transaction; a failing batch does not fail the others.

        Raises:
            StaleVersion, DuplicateKey, NotLeader: nothing of this batch was written.
        """

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        """Events numbered above `number`, in order."""

    async def news_after(self, seen: int, *, limit: int) -> tuple[Event, ...]:
        """As `events_after`, for a server that has read event `seen`.

        Raises:
            StoreUnavailable: the database lacks that event: a copy took the place of the cluster's own database.
        """

    async def events_of(self, session_id: SessionId, *, after: int, limit: int) -> tuple[Event, ...]:
        """Events numbered above `after` of a session, its kernels, and its leases without kernels."""

    async def session_steps(
        self, session_id: SessionId, *, kinds: Collection[str], before: int | None, limit: int
    ) -> tuple[Event, ...]:
        """The newest events of these kinds of a session itself, numbered below `before`; oldest first."""

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        """List sessions from the database."""

    async def count_sessions(self, query: SessionQuery) -> int:
        """Number of matching sessions, ignoring `after` and `limit`."""

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        """A session with the kernels and leases of its newest attempt; empty when it does not exist."""

    async def session_by_key(self, owner: UserId, key: str) -> Session | None:
        """The session created with this idempotency key."""


class ByteStream(Protocol):
    """Bytes in both directions, with back-pressure. Methods raise AliquotError when the connection has ended."""

    async def read(self) -> bytes:
        """The next piece, at most `FRAME_BYTES_MAX`; empty at the end."""

    async def write(self, data: bytes) -> None:
        """Send data; waits while the other side does not read."""

    async def end(self) -> None:
        """Nothing more will be sent."""

    async def close(self) -> None:
        """Close both directions."""


class Executor(Protocol):
    """Runs kernels on agents. Results arrive through `messages`, at least once and possibly late."""

    async def start(self) -> None:
        """Start connecting to agents."""

    async def close(self) -> None:
        """Disconnect from the agents; kernels keep running."""

    def messages(self) -> AsyncIterator[AgentMessage]:
        """Messages of all agents, in order per agent. For a single reader."""

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """Send launch orders; starts are reported later. Idempotent per order.

        Raises:
            Unavailable: the agent is unreachable; whether it got the orders is unknown.
        """

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """Terminate a kernel, and kill it after the grace period. One that has not started never will.

        Raises:
            Unavailable: the agent is unreachable.
        """

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """Send a signal to the kernel's main process.

        Raises:
            Unavailable: the agent is unreachable.
            NotFound: the kernel does not run there.
        """

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        """Change the time limit of a running kernel, in milliseconds since its start. Idempotent.

        Raises:
            Unavailable: the agent is unreachable, or of an earlier release.
            NotFound: the kernel does not run there.
        """

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """The agent's current kernels and devices, read from its files and drivers.

        Raises:
            Unavailable: the agent is unreachable.
        """

    async def has_account(self, agent_id: AgentId, account: str) -> bool | None:
        """Whether the agent's host has a Unix account; None if the agent cannot tell.

        Raises:
            Unavailable: the agent is unreachable.
        """

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """Acknowledge ended kernels, so that the agent stops reporting them. Their output stays readable for a while.

        Raises:
            Unavailable: the agent is unreachable; it is repeated when the agent registers.
        """

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """Connect to a terminal or a port of a running kernel.

        Raises:
            Unavailable: the agent is unreachable, or of a version without streams.
            NotFound: the kernel does not run there, or does not listen on the port.
            InvalidRequest: the target is invalid.
        """

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """Follow a kernel's output from a byte offset, or from `OUTPUT_END`; the last chunk is `at_end`.

        Raises:
            Unavailable: the agent is unreachable.
            NotFound: the agent has no output of this kernel.
        """
