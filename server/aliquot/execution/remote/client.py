"""Remote agent: runs an agent in its own process and keeps it connected to the leading server.

After a lost connection it dials the server named as leader, else the next in its list, with exponential back-off.
"""

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from aliquot.errors import ConfigurationError
from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.remote.codec import Channel, ChannelClosed, ProtocolError
from aliquot.execution.remote.connection_file import marked
from aliquot.execution.remote.dialing import ServerAddress, Unreachable, dialled, introduce, server_address
from aliquot.execution.remote.session import AgentSession, NotLeading, Outbox, OutboxFull, Refused, ServerSilent
from aliquot_schema.cluster.agent_protocol import PROTOCOLS, Goodbye, Hello, Welcome
from aliquot_schema.cluster.launching import ALIVE, LaunchOrder
from aliquot_schema.errors import StateConflict, Unavailable


class ServerList:
    """Chooses the server to dial; a round ends when all servers failed since the last welcome."""

    def __init__(self, addresses: Sequence[ServerAddress]) -> None:
        """`addresses`: at least one, in the order in which they are tried."""
        self._addresses = tuple(addresses)
        self._position = 0
        self._tried: set[int] = set()
        self.has_followers = False
        """Whether a server answered in this round that it is a follower."""

    @property
    def current(self) -> ServerAddress:
        """The server to dial now."""
        return self._addresses[self._position]

    def welcomed(self) -> None:
        """The current server accepted the agent."""
        self._tried.clear()
        self.has_followers = False

    def advance(self, *, is_follower: bool, leader: str) -> bool:
        """Move to the next server; returns whether the round is over and the caller should wait.

        Args:
            is_follower: whether the current server answered that it does not lead.
            leader: the leader it named; ignored if it is not in the list, because it is not a trusted address.
        """
        self._tried.add(self._position)
        self.has_followers |= is_follower
        count = len(self._addresses)
        order = [(self._position + step) % count for step in range(1, count + 1)]
        named = self._position_of(leader)
        wanted = [*([] if named is None else [named]), *order]
        fresh = [position for position in wanted if position not in self._tried]
        self._position = (fresh or wanted)[0]
        if not fresh:
            self._tried.clear()
        return not fresh

    def start_round(self) -> None:
        """Start a new round after the wait."""
        self.has_followers = False

    def _position_of(self, leader: str) -> int | None:
        try:
            url = server_address(leader).url
        except ConfigurationError:
            return None
        return next((position for position, known in enumerate(self._addresses) if known.url == url), None)


GREET_S_MAX: Final = 15.0


class AgentSender:
    """Serves an agent's connections, one at a time: says hello with the same instance id and sends its reports."""

    def __init__(self, core: AgentCore) -> None:
        self._core = core
        self._hello = Hello(
            agent_id=core.config.id,
            boot_id=core.config.node.boot_id,
            instance=uuid.uuid4().hex,
            software_version=core.config.software_version,
            protocols=PROTOCOLS,
            has_streams=True,
            has_limits=True,
            order_fields=LaunchOrder.__struct_fields__,
        )
        self._outbox = Outbox()

    async def forward_reports(self) -> None:
        """Forward reports to the current connection until the agent is closed.

        Reports made without a connection are covered by the inventory of the next one.
        """
        async for message in self._core.reports():
            self._outbox.add(message)

    async def serve(self, channel: Channel, *, welcomed: Callable[[Welcome], None]) -> None:
        """Introduce the agent and serve the connection until it ends. One connection at a time.

        Raises:
            Refused, Unreachable, ChannelClosed, ProtocolError: the server did not accept the agent.
            ExceptionGroup: see `AgentSession.run`.
        """
        try:
            async with asyncio.timeout(GREET_S_MAX):
                welcome = await introduce(channel, self._hello)
        except TimeoutError:
            raise Unreachable(f"the server did not answer the hello within {GREET_S_MAX:g} s") from None
        await self._check_epoch(welcome)
        outbox = self._outbox = Outbox()
        welcomed(welcome)
        session = AgentSession(self._core, channel, outbox=outbox, beat_s=welcome.beat_s)
        try:
            async with marked(self._core.config.folder):
                # In a separate task: before Python 3.11.5 a failing group leaves its task half cancelled, and the next
                # time-out in that task would end it. This applies wherever a task continues after a failed group.
                await asyncio.create_task(session.run())
        finally:
            self._outbox = Outbox()

    async def _check_epoch(self, welcome: Welcome) -> None:
        """Refuse an outdated leader: a server that was cut off may still believe that it leads."""
        if not welcome.epoch:
            return
        try:
            await self._core.check_epoch(welcome.epoch)
        except StateConflict as error:
            raise Refused(f"the server no longer leads: {error.message}") from None


E = TypeVar("E", bound=Exception)

WAIT_S_MIN: Final = 0.2
WAIT_S_MAX: Final = 10.0
DOWN_S_MAX: Final = 2.0
DOWN_ATTEMPTS: Final = 30
"""While connections are refused, as during a restart, the first attempts are at most `DOWN_S_MAX` apart. A refused
connection costs little. The server itself spreads those that it accepts; see `api.agent_socket`."""
GOOD_BYE_S_MAX: Final = 2.0
ELECTION_S: Final = 0.4
"""Longest wait if a follower answered: a server leads or is being elected."""

log: Final = logging.getLogger("aliquot.agent")


@dataclass(slots=True)
class Backoff:
    """Exponential back-off with jitter, `WAIT_S_MIN` to `WAIT_S_MAX`."""

    attempts: int = 0

    def next_s(self, *, is_down: bool = False) -> float:
        """Seconds to wait, uniform between half and the whole step.

        Args:
            is_down: whether no server listens.
        """
        longest_s = DOWN_S_MAX if is_down and self.attempts < DOWN_ATTEMPTS else WAIT_S_MAX
        step = min(longest_s, WAIT_S_MIN * 2.0 ** min(self.attempts, 16))
        self.attempts += 1
        return step * random.uniform(0.5, 1.0)


class RemoteAgent:
    """Connects an `AgentCore` to the leading server. Kernels outlive both; connections start with the inventory."""

    def __init__(self, core: AgentCore, *, addresses: Sequence[ServerAddress], key: Callable[[], str]) -> None:
        """
        Args:
            addresses: the servers of one cluster; the agent stays connected to the leader.
            key: called for each connection.
        """
        self._core = core
        self._servers = ServerList(addresses)
        self._key = key
        self._sender = AgentSender(core)
        self._channel: Channel | None = None
        self._logged = ""
        self._is_closing = False

    async def run(self, stop: asyncio.Event) -> None:
        """Open the agent and stay connected until `stop` is set; kernels keep running.

        Raises:
            AliquotError: the agent cannot be opened.
        """
        await self._core.open()
        log.info("agent %s is open in %s", self._core.config.id, self._core.config.folder)
        passing = asyncio.create_task(self._sender.forward_reports())
        dialling = asyncio.create_task(self._dial_forever())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({passing, dialling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await self._send_good_bye()
        finally:
            self._is_closing = True
            for task in (dialling, stopping):
                task.cancel()
            await asyncio.gather(dialling, stopping, return_exceptions=True)
            await self._core.close()
            await passing
        log.info("agent %s has stopped; its jobs keep running", self._core.config.id)

    async def _dial_forever(self) -> None:
        """Dial until cancelled."""
        backoff = Backoff()
        while True:
            started = time.monotonic()
            is_follower, leader, again_s, is_down = False, "", 0.0, False
            try:
                await self._serve()
            except* NotLeading as ends:
                is_follower, leader = True, _first(ends).leader
                self._log_end(ends)
            except* (Refused, Unreachable, ServerSilent, ChannelClosed, ProtocolError, OutboxFull, Unavailable) as ends:
                again_s, is_down = getattr(_first(ends), "again_s", 0.0), getattr(_first(ends), "is_down", False)
                self._log_end(ends)
            except* Exception as faults:
                log.error("the connection failed", exc_info=faults)
            if self._is_closing:
                return  # the task group raised the error of the lost connection instead of the cancellation
            if time.monotonic() - started > WAIT_S_MAX:
                backoff = Backoff()
            if again_s:
                await asyncio.sleep(again_s + random.random())
            elif self._servers.advance(is_follower=is_follower, leader=leader):
                longest_s = ELECTION_S if self._servers.has_followers else WAIT_S_MAX
                await asyncio.sleep(min(backoff.next_s(is_down=is_down), longest_s))
                self._servers.start_round()

    async def _serve(self) -> None:
        async with dialled(self._servers.current, agent_id=self._core.config.id, key=self._key()) as channel:
            try:
                await self._sender.serve(channel, welcomed=lambda welcome: self._welcomed(channel, welcome))
            finally:
                self._channel = None

    def _welcomed(self, channel: Channel, welcome: Welcome) -> None:
        self._channel = channel
        self._servers.welcomed()
        self._log_status(
            f"connected to {self._servers.current.url} ({welcome.software_version}, protocol {welcome.protocol})"
        )

    async def _send_good_bye(self) -> None:
        """Say good-bye only without running jobs: a restart under running jobs is faster than the silence limit."""
        channel = self._channel  # it may be lost meanwhile
        if channel is None:
            return
        with suppress(TimeoutError, ChannelClosed, Unavailable):
            async with asyncio.timeout(GOOD_BYE_S_MAX):
                kernels = (await self._core.inventory()).kernels
                if not any(report.phase in ALIVE for report in kernels):
                    await channel.send(Goodbye())

    def _log_end(self, ends: BaseExceptionGroup[Exception]) -> None:
        error = _first(ends)
        match error:
            case NotLeading():
                reason = f"{self._servers.current.url}: {error}"
            case Refused():
                reason = f"refused: {error}"
            case ChannelClosed():
                reason = "the connection was lost"
            case OutboxFull():
                reason = "the server processes reports too slowly"
            case _:
                reason = str(error)
        self._log_status(f"not connected: {reason}; retrying")

    def _log_status(self, reason: str) -> None:
        """Log the status if it has changed."""
        if reason != self._logged:
            self._logged = reason
            log.info("agent %s is %s", self._core.config.id, reason)


def _first(ends: BaseExceptionGroup[E]) -> E:
    """The first error in a group of groups."""
    error = ends.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
