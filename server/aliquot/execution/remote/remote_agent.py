"""An agent in a process of its own, that dials in for as long as it lives."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from aliquot.execution.agent.core import AgentCore
from aliquot.execution.remote.channel import Channel, ChannelClosed
from aliquot.execution.remote.codec import ProtocolError
from aliquot.execution.remote.conversation import NotLeading, Refused, ServerSilent
from aliquot.execution.remote.dialing import Unreachable, dialled
from aliquot.execution.remote.outbox import OutboxFull
from aliquot.execution.remote.server_address import ServerAddress
from aliquot.execution.remote.server_ring import ServerRing
from aliquot.execution.remote.voice import AgentVoice
from aliquot_schema.agent_protocol import GoodBye, Welcome
from aliquot_schema.errors import Unavailable
from aliquot_schema.launching import KernelPhase

E = TypeVar("E", bound=Exception)

WAIT_S_MIN: Final = 0.2
WAIT_S_MAX: Final = 10.0
GOOD_BYE_S_MAX: Final = 2.0
ELECTION_S: Final = 0.4
"""The longest wait when a server says that another one leads: one does, or will in a moment."""

log: Final = logging.getLogger("aliquot.agent")


@dataclass(slots=True)
class Backoff:
    """How long to wait before dialling again: twice as long each time, up to a bound, and never at the same moment
    as all the other agents."""

    attempts: int = 0

    def next_s(self) -> float:
        """Seconds, between half and the whole of the step."""
        step = min(WAIT_S_MAX, WAIT_S_MIN * 2.0 ** min(self.attempts, 16))
        self.attempts += 1
        return step * random.uniform(0.5, 1.0)


class RemoteAgent:
    """Joins an `AgentCore` and a server. Kernels outlive it, and the core tells the server's next life everything."""

    def __init__(self, core: AgentCore, *, addresses: Sequence[ServerAddress], key: str) -> None:
        """`addresses`: of the servers of one cluster; the agent stays with the one that leads."""
        self._core = core
        self._ring = ServerRing(addresses)
        self._key = key
        self._voice = AgentVoice(core)
        self._channel: Channel | None = None
        self._said = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Open the agent, and stay connected until `stop` is set; kernels run on.

        Raises:
            AliquotError: the agent cannot be opened.
        """
        await self._core.open()
        log.info("agent %s is open in %s", self._core.config.id, self._core.config.folder)
        passing = asyncio.create_task(self._voice.pass_on())
        dialling = asyncio.create_task(self._dial_for_ever())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({passing, dialling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await self._say_good_bye()
        finally:
            for task in (dialling, stopping):
                task.cancel()
            await asyncio.gather(dialling, stopping, return_exceptions=True)
            await self._core.close()
            await passing
        log.info("agent %s has stopped; what it started runs on", self._core.config.id)

    async def _dial_for_ever(self) -> None:
        backoff = Backoff()
        while True:
            started = time.monotonic()
            is_follower, leader = False, ""
            try:
                await self._talk()
            except* NotLeading as ends:
                is_follower, leader = True, _first(ends).leader
                self._note(ends)
            except* (Refused, Unreachable, ServerSilent, ChannelClosed, ProtocolError, OutboxFull, Unavailable) as ends:
                self._note(ends)
            except* Exception as faults:
                log.error("the connection failed", exc_info=faults)
            if time.monotonic() - started > WAIT_S_MAX:
                backoff = Backoff()
            if self._ring.turn(is_follower=is_follower, leader=leader):
                await asyncio.sleep(min(backoff.next_s(), ELECTION_S if self._ring.has_followers else WAIT_S_MAX))
                self._ring.begin_round()

    async def _talk(self) -> None:
        async with dialled(self._ring.present, agent_id=self._core.config.id, key=self._key) as channel:
            try:
                await self._voice.talk(channel, welcomed=lambda welcome: self._welcomed(channel, welcome))
            finally:
                self._channel = None

    def _welcomed(self, channel: Channel, welcome: Welcome) -> None:
        self._channel = channel
        self._ring.welcomed()
        self._say(f"connected to {self._ring.present.url} ({welcome.software_version}, protocol {welcome.protocol})")

    async def _say_good_bye(self) -> None:
        """Only when nothing runs: an agent that is restarted under its jobs is back before it is missed."""
        if self._channel is None:
            return
        with suppress(TimeoutError, ChannelClosed, Unavailable):
            async with asyncio.timeout(GOOD_BYE_S_MAX):
                kernels = (await self._core.inventory()).kernels
                if not any(report.phase in (KernelPhase.STARTED, KernelPhase.UNCERTAIN) for report in kernels):
                    await self._channel.send(GoodBye())

    def _note(self, ends: BaseExceptionGroup[Exception]) -> None:
        error = _first(ends)
        match error:
            case NotLeading():
                words = f"{self._ring.present.url}: {error}"
            case Refused():
                words = f"refused: {error}"
            case ChannelClosed():
                words = "the connection was lost"
            case OutboxFull():
                words = "the server takes reports too slowly"
            case _:
                words = str(error)
        self._say(f"not connected: {words}; dialling again, for ever")

    def _say(self, words: str) -> None:
        """One line for each change."""
        if words != self._said:
            self._said = words
            log.info("agent %s is %s", self._core.config.id, words)


def _first(ends: BaseExceptionGroup[E]) -> E:
    """The first error in a group of groups."""
    error = ends.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
