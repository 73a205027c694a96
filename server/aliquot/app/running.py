"""Running server: the parts behind the HTTP API, for standalone, leader and follower servers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import Struct

from aliquot.api.agent_socket import AgentGateway
from aliquot.app.agents import AgentExecutors
from aliquot.clock import LEAP_US, SystemClock
from aliquot.core.clock_correction import offset_text
from aliquot.execution.remote.executor import RemoteExecutor
from aliquot.service.agents.doctor import Inspector
from aliquot.service.leadership.ports import LeadershipStatus
from aliquot.service.metrics.counters import StoreMeasures
from aliquot.service.ports import ByteStream, Executor
from aliquot.service.use_cases import UseCases
from aliquot.store.cluster_mark import ClusterMark, latest_mark
from aliquot.store.store import DatabaseStore
from aliquot_schema.cluster.launching import LogChunk
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.ids import AgentId, KernelId

log: Final = logging.getLogger("aliquot.app")
clock_log: Final = logging.getLogger("aliquot.clock")


class LeaderRuntime:
    """What a server has only while it leads: the executors and the inspector of the present term."""

    def __init__(self) -> None:
        self._side: AgentExecutors | None = None
        self._inspector: Inspector | None = None

    @contextmanager
    def serving(self, side: AgentExecutors, inspector: Inspector) -> Iterator[None]:
        """Serve with these while the context is open."""
        self._side, self._inspector = side, inspector
        try:
            yield
        finally:
            self._side = self._inspector = None

    def side(self) -> AgentExecutors | None:
        """The executors; None while another server leads."""
        return self._side

    def inspector(self) -> Inspector | None:
        """The inspector of agents; None while another server leads."""
        return self._inspector

    def executor(self) -> Executor | None:
        """Of all agents; None while another server leads."""
        return None if self._side is None else self._side.executor

    def remote(self) -> RemoteExecutor | None:
        """Of the agents that connect to this server; None while another server leads."""
        return None if self._side is None else self._side.remote


class OwnOutputs:
    """`aliquot.service.subscriptions.watching.Outputs` and streams of the server's own executor; only a leader has
    one."""

    def __init__(self, executor: Callable[[], Executor | None]) -> None:
        """
        Args:
            executor: returns that of the present term; None while this server does not lead.
        """
        self._executor = executor

    @property
    def is_there(self) -> bool:
        """Whether this server leads."""
        return self._executor() is not None

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`.

        Raises:
            Unavailable: this server does not lead.
        """
        return self._leading().follow_log(agent_id, kernel_id, offset=offset)

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """See `Executor.open_stream`.

        Raises:
            Unavailable: this server does not lead.
        """
        return await self._leading().open_stream(agent_id, kernel_id, target)

    def _leading(self) -> Executor:
        executor = self._executor()
        if executor is None:
            raise Unavailable("this server is not the leader; try again in a few seconds")
        return executor


class Running(Struct, frozen=True, kw_only=True):
    """A started server without its listener."""

    cases: UseCases
    agents: AgentGateway
    outputs: OwnOutputs | None
    """Job output and streams of its agents, for the other servers; None for a standalone server."""
    side: Callable[[], AgentExecutors | None]
    """The executors of the present term; None while another server leads."""
    standing: Callable[[], LeadershipStatus]
    missing: Callable[[], str | None]
    """A message that says why it cannot serve now; None when it can."""
    failed: asyncio.Event
    """Set when a background loop failed: the process has to be restarted."""
    database: "WatchedDatabase"


class WatchedDatabase(Struct, frozen=True, kw_only=True):
    """What the health checks read of the database."""

    measures: StoreMeasures
    ask: Callable[[], Awaitable[object]]
    """A query of minimal cost, to see whether the database answers."""
    mark: Callable[[ClusterMark | None, int], Awaitable[ClusterMark | None]]
    """See `latest_mark`."""
    clock_warning: Callable[[], str | None] = lambda: None
    """A sentence while the clocks of this machine and of the database's machine differ by more than a minute."""

    @classmethod
    def of(cls, store: DatabaseStore, clock: SystemClock) -> "WatchedDatabase":
        """The checks of a store."""
        clocks = ClockComparison(store, clock)
        return cls(
            measures=store.measures, ask=clocks.ask, mark=partial(_mark, store), clock_warning=lambda: clocks.warning
        )


class ClockComparison:
    """Compares the clock of this machine with that of the database's machine, which all servers have in common."""

    def __init__(self, store: DatabaseStore, clock: SystemClock) -> None:
        self._store = store
        self._clock = clock
        self.warning: str | None = None
        """Logged when the clocks begin to differ."""

    async def ask(self) -> None:
        """Query the database, and compare."""
        await self._store.present_term()
        sent_us = self._clock.wall_us()
        there_us = await self._store.database_us()
        if there_us is None:
            return
        ahead_us = max(sent_us - there_us, 0) or min(self._clock.wall_us() - there_us, 0)
        before, self.warning = self.warning, None if abs(ahead_us) <= LEAP_US else _difference_text(ahead_us)
        if self.warning is not None and before is None:
            clock_log.error("%s", self.warning)


def _difference_text(ahead_us: int) -> str:
    size, where = offset_text(ahead_us).rpartition(" ")[0], "ahead of" if ahead_us > 0 else "behind"
    return (
        f"the clock of this machine is {size} {where} that of the database's machine; "
        "set both by NTP: the clock of the server that leads dates sessions, charges and bookings"
    )


async def _mark(store: DatabaseStore, known: ClusterMark | None, seen: int) -> ClusterMark | None:
    return await store.read(partial(latest_mark, known=known, seen=seen))


@dataclass(slots=True)
class WatchedTask:
    """A task that must not end by itself; its end is a failure of the server."""

    task: asyncio.Task[None]
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.task.add_done_callback(self._note_end)

    @property
    def fault(self) -> str | None:
        """A message when the task has failed; otherwise None."""
        return "a loop of the server has failed" if self.failed.is_set() else None

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        cause = None if error is None else first_of(error)
        if isinstance(cause, AliquotError):  # the words are sufficient
            log.critical("a background loop failed; restart the server: %s", cause)
        else:
            log.critical("a background loop failed; restart the server", exc_info=error)
        self.failed.set()


def first_of(fault: BaseException) -> BaseException:
    """The first leaf of an exception group."""
    return first_of(fault.exceptions[0]) if isinstance(fault, BaseExceptionGroup) else fault
