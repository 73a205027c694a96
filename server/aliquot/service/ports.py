"""What the use cases ask of the world: a clock, ids, a store and an executor. `app.py` says who answers."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from aliquot_schema.errors import Unavailable
from aliquot_schema.events import Event, Record
from aliquot_schema.ids import AgentId, KernelId, ProjectId, RequestId, SessionId, UserId
from aliquot_schema.launching import AgentMessage, Inventory, LaunchOrder, LogChunk
from aliquot_schema.session_lists import ALL_SESSIONS, SessionFilter, SessionOrder
from aliquot_schema.sessions import Session


class Clock(Protocol):
    """Time, as the service sees it."""

    def now_us(self) -> int:
        """Wall time, microseconds UTC; never goes back within a process, nor behind what an earlier one wrote down."""

    def wall_us(self) -> int:
        """The same as the machine has it, which somebody may set back: what is too old is too old by this one."""

    def monotonic(self) -> float:
        """Seconds from some start, for measuring and time-outs."""

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while."""


class Ids(Protocol):
    """Fresh identifiers."""

    def new(self, prefix: str) -> str:
        """`<prefix><uuid7>`; later ones sort after earlier ones of the same process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One row to insert or replace, and the event that tells of it.

    `record.version` is the new version: 1 inserts, n > 1 replaces version n - 1 and nothing else.
    """

    record: Record
    kind: str
    """What happened: `session.queued`, `lease.granted`, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes that are committed together or not at all, in the order given."""

    writes: tuple[Write, ...]
    at_us: int
    actor: str
    """A user id, or `system:<part>`."""
    request_id: RequestId | None = None
    pass_number: int | None = None
    epoch: int | None = None
    """The leader's, checked in the transaction; None = anybody may commit this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Everything a server needs to start: the live rows, and the newest of the ended sessions."""

    revision: int
    """The number of the last event."""
    epoch: int
    last_at_us: int
    """When the last event was written; a pass is never dated before it."""
    last_pass: int
    """The highest pass number in the log."""
    records: tuple[Record, ...]
    """Agents and slots; sessions that have not ended or hold devices; the newest ended ones; and for all of these
    sessions, the kernels and leases of the newest attempt, plus every lease that is not released."""
    ended_complete: bool
    """Whether `records` holds all ended sessions."""


class StaleVersion(Exception):
    """A row was changed by somebody else since it was read; nothing of the batch was written."""


class DuplicateKey(Exception):
    """A row with this id, or this owner's idempotency key, exists; nothing of the batch was written."""


class NotLeader(Exception):
    """The batch's epoch is not the present one; nothing of it was written."""


class StoreUnavailable(Unavailable):
    """The database cannot be reached or written now; whether the batch was written is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Sessions of somebody, and of projects that he is a member of."""

    owner: UserId
    projects: tuple[ProjectId, ...]

    def has(self, session: Session) -> bool:
        """Whether a session is one of them."""
        return session.owner == self.owner or session.project in self.projects


SortKey = tuple[int | str | None, ...]
"""What a session is sorted by, with its id as the last, see `aliquot.service.listing.orders`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions to list, and in which order."""

    where: SessionFilter = ALL_SESSIONS
    """Its `agents` and `nodes` are not looked at here, see `agents`."""
    members_only: Members | None = None
    agents: tuple[AgentId, ...] | None = None
    """Those of `where.agents` that are on `where.nodes`; None = wherever it is."""
    order: SessionOrder = SessionOrder.NEWEST
    after: SortKey | None = None
    """List what comes after it in the order asked."""
    limit: int = 100


class Store(Protocol):
    """The durable state. Every method may raise `StoreUnavailable`."""

    async def open(self) -> Loaded:
        """Take the database (migrated before), raise the epoch, and read the state.

        Raises:
            StoreUnavailable: it cannot be opened; the message says why and what to do.
        """

    async def close(self) -> None:
        """Finish what was accepted, and let go."""

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        """Write a batch durably and return its events, one per write, numbered without gaps in commit order.

        Concurrent calls may share one transaction; one that fails does not fail the others.

        Raises:
            StaleVersion, DuplicateKey, NotLeader: nothing of this batch was written.
        """

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        """Events numbered above `number`, in order."""

    async def events_of(self, session_id: SessionId, *, after: int, limit: int) -> tuple[Event, ...]:
        """Those of one session, of its kernels, and of what it holds without kernels, numbered above `after`."""

    async def session_steps(
        self, session_id: SessionId, *, kinds: Collection[str], before: int | None, limit: int
    ) -> tuple[Event, ...]:
        """The newest events of a session itself, of these kinds, numbered below `before`; oldest first."""

    async def sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        """List sessions by what the database holds."""

    async def count_sessions(self, query: SessionQuery) -> int:
        """How many sessions match, `after` and `limit` aside."""

    async def session_records(self, session_id: SessionId) -> tuple[Record, ...]:
        """A session with the kernels and leases of its newest attempt; empty when there is none."""

    async def session_by_key(self, owner: UserId, key: str) -> Session | None:
        """The session that was created with this idempotency key."""


class Executor(Protocol):
    """Runs kernels on agents. What it did comes back through `messages`, late or repeated if need be."""

    async def start(self) -> None:
        """Begin to look for agents."""

    async def close(self) -> None:
        """Let go of the agents; kernels run on."""

    def messages(self) -> AsyncIterator[AgentMessage]:
        """What agents say, in the order of each agent. One reader."""

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """Hand over orders; starting is reported later. Repeating an order starts nothing twice.

        Raises:
            Unavailable: the agent cannot be asked; whether it got the orders is not known.
        """

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """Ask a kernel to end, and make it end after the grace. One that was not started never will be.

        Raises:
            Unavailable: the agent cannot be asked.
        """

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """Send a signal to the kernel's main process.

        Raises:
            Unavailable: the agent cannot be asked.
            NotFound: the kernel does not run there.
        """

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """Everything the agent has now, read afresh from its files and devices.

        Raises:
            Unavailable: the agent cannot be asked.
        """

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """Let the agent tell no more of these: their end is durable here. Their output can be read for a while yet.

        Raises:
            Unavailable: the agent cannot be asked; it is asked again when it joins.
        """

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """The kernel's output from a byte on, or from `OUTPUT_END`, until its end; ends with a chunk that is `at_end`.

        Raises:
            Unavailable: the agent cannot be asked.
            NotFound: the agent has no output of this kernel.
        """
