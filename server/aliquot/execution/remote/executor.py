"""The port `Executor` over agents that dial in."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final

from aliquot.execution.remote.channel import Channel, ChannelClosed, Wire
from aliquot.execution.remote.codec import ProtocolError
from aliquot.execution.remote.keys import AgentKeys, key_refusal
from aliquot.execution.remote.link import AgentLink, farewell, silent_for_s
from aliquot.execution.remote.presence import Presence
from aliquot.execution.remote.timing import Timing
from aliquot_schema.agent_protocol import (
    PROTOCOLS,
    DevicesTold,
    Forget,
    Hello,
    Joined,
    KernelTold,
    Launch,
    ReadingsTold,
    Refusal,
    Report,
    SendSignal,
    Stop,
    TellInventory,
    Welcome,
    agreed_protocol,
    disagreement,
)
from aliquot_schema.agents import Agent
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import (
    AgentJoined,
    AgentMessage,
    AgentSilent,
    DevicesChanged,
    Inventory,
    KernelChanged,
    LaunchOrder,
    LogChunk,
    ReadingsTaken,
)

LOOK_S_MAX: Final = 0.5
"""How often silence and keys are looked at."""

log: Final = logging.getLogger("aliquot.agents")

Taken = Callable[[], None]


class RemoteExecutor:
    """Knows agents by their connections. Messages of one agent stay in order; one is acknowledged once it was taken."""

    def __init__(
        self,
        *,
        keys: AgentKeys,
        timing: Timing,
        now_us: Callable[[], int],
        expected: Iterable[AgentId] = (),
        taken_ids: frozenset[AgentId] = frozenset(),
        software_version: str = "",
        epoch: int = 0,
        objection: Callable[[Agent], str | None] = lambda _: None,
    ) -> None:
        """
        Args:
            expected: agents that an earlier server knew, and that may dial in again.
            taken_ids: agents of the server itself; nobody may dial in as one of them.
            epoch: of the term that it is made for, where several servers take turns to lead; 0 = alone.
            objection: why an agent may not join as it describes itself, in words; None when it may.
        """
        self._keys = keys
        self._timing = timing
        self._now_us = now_us
        self._expected = frozenset(expected) - taken_ids
        self._taken_ids = taken_ids
        self._software_version = software_version
        self._epoch = epoch
        self._objects_to = objection
        self._presence = Presence(timing, expected=())
        self._links: dict[AgentId, AgentLink] = {}
        self._meeting: set[AgentLink] = set()
        self._joined = asyncio.Event()
        self._messages: asyncio.Queue[tuple[AgentMessage, Taken] | None] = asyncio.Queue()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to count silence."""
        self._presence = Presence(self._timing, expected=self._expected)
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """Let go of the agents; kernels run on, and the agents dial in again."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for link in self._meeting:
            link.end(code="broken", message="the server stops")
        self._messages.put_nowait(None)

    def refusal(self, agent_id: str, key: str) -> str | None:
        """Why nobody may dial in so, in words; None when he may."""
        return key_refusal(self._keys, agent_id=agent_id, key=key)

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None) -> None:
        """Serve one connection until its end.

        Args:
            key: what the agent showed, and was found to hold; None when it needs none, as others vouch for it.
        """
        channel = Channel(wire)
        try:
            async with asyncio.timeout(self._timing.greet_s):
                hello = await self._greet(channel, agent_id)
        except (TimeoutError, ChannelClosed):
            return
        except ProtocolError as error:
            await self._refuse(channel, agent_id, Refusal(code="broken", message=str(error)))
            return
        refusal = self._objection(hello)
        if refusal is not None:
            await self._refuse(channel, agent_id, refusal)
            return
        with suppress(ChannelClosed):
            await channel.send(self._welcome(hello))
            if not hello.probe:
                await self._serve(AgentLink(channel, hello=hello, key=key, timing=self._timing, take=self._take))

    def missed(self, agent_id: AgentId) -> None:
        """Somebody who can tell says that the agent's process is gone: its silence need not be waited for."""
        if agent_id not in self._links:
            self._presence.missed(agent_id)

    async def messages(self) -> AsyncIterator[AgentMessage]:
        """What agents say, in the order of each agent, until `close`. One reader."""
        while (entry := await self._messages.get()) is not None:
            message, taken = entry
            yield message
            taken()

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """See `AgentCore.launch`."""
        await self._link(agent_id).ask(Launch(request=0, orders=tuple(orders)))

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """See `AgentCore.stop`."""
        await self._link(agent_id).ask(Stop(request=0, kernel_id=kernel_id, epoch=epoch, grace_ms=grace_ms))

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """See `AgentCore.send_signal`."""
        await self._link(agent_id).ask(SendSignal(request=0, kernel_id=kernel_id, epoch=epoch, signal=signal))

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """See `AgentCore.inventory`."""
        answer = await self._link(agent_id).ask(TellInventory(request=0))
        if answer.inventory is None:
            raise Unavailable(f"agent {agent_id} told no inventory")
        return answer.inventory

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """See `AgentCore.forget`."""
        await self._link(agent_id).tell(Forget(kernel_ids=tuple(kernel_ids)))

    async def follow_log(
        self, agent_id: AgentId, kernel_id: KernelId, *, offset: int
    ) -> AsyncGenerator[LogChunk, None]:
        """See `AgentCore.follow_log`. Goes on from the same byte when the agent dials in again before it is lost."""
        while True:
            link = await self._linked(agent_id)
            try:
                async with aclosing(link.follow(kernel_id, offset=offset)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                        offset = chunk.offset + len(chunk.data)
                return
            except Unavailable:
                if not link.is_over:
                    raise

    def _link(self, agent_id: AgentId) -> AgentLink:
        link = self._links.get(agent_id)
        if link is None:
            raise Unavailable(f"agent {agent_id} is not connected")
        return link

    async def _linked(self, agent_id: AgentId) -> AgentLink:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.lost_s):
                while (link := self._links.get(agent_id)) is None or link.is_over:
                    await self._joined.wait()
        return self._link(agent_id)

    async def _greet(self, channel: Channel, agent_id: str) -> Hello:
        hello = await channel.receive()
        if not isinstance(hello, Hello) or hello.agent_id != agent_id:
            raise ProtocolError("the first message is not the hello of the agent that the key is for")
        return hello

    async def _refuse(self, channel: Channel, agent_id: str, refusal: Refusal) -> None:
        log.warning("agent %.80s is refused: %s", agent_id, refusal.message)
        await farewell(channel, refusal)

    def _objection(self, hello: Hello) -> Refusal | None:
        if agreed_protocol(agent=hello.protocols, server=PROTOCOLS) is None:
            mine = self._software_version
            words = disagreement(
                agent=hello.protocols, server=PROTOCOLS, agent_version=hello.software_version, server_version=mine
            )
            return Refusal(code="protocol", message=words)
        if hello.agent_id in self._taken_ids:
            words = f"{hello.agent_id} is an agent of the server itself; give this one another name with --id"
            return Refusal(code="already_connected", message=words)
        other = self._links.get(hello.agent_id)
        if hello.probe or other is None or other.is_over or _is_same(other.hello, hello):
            return None
        words = f"another process is connected as {hello.agent_id}: stop it, or give this one another key and --id"
        return Refusal(code="already_connected", message=words)

    def _welcome(self, hello: Hello) -> Welcome:
        protocol = agreed_protocol(agent=hello.protocols, server=PROTOCOLS)
        assert protocol is not None
        return Welcome(
            protocol=protocol,
            software_version=self._software_version,
            beat_s=self._timing.beat_s,
            now_us=self._now_us(),
            epoch=self._epoch,
        )

    async def _serve(self, link: AgentLink) -> None:
        self._meeting.add(link)
        try:
            await link.run()
        finally:
            self._meeting.discard(link)
            self._presence.heard(link.agent_id, at=link.heard_at)
            if self._links.get(link.agent_id) is link:
                del self._links[link.agent_id]
                log.info("agent %s is no longer connected", link.agent_id)
                if link.said_good_bye:
                    self._presence.left(link.agent_id)
                    self._tell(AgentSilent(agent_id=link.agent_id, gone=True))

    def _take(self, link: AgentLink, report: Report) -> None:
        agent_id = link.agent_id
        message: AgentMessage
        match report:
            case Joined():
                self._join(link, report.inventory.agent)
                message = AgentJoined(inventory=report.inventory)
            case DevicesTold():
                message = DevicesChanged(inventory=report.inventory)
            case ReadingsTold():
                message = ReadingsTaken(
                    agent_id=agent_id,
                    at_us=report.at_us,
                    readings=report.readings,
                    disk_shortage=report.disk_shortage,
                )
            case KernelTold():
                message = KernelChanged(agent_id=agent_id, report=report.report)
        if self._links.get(agent_id) is link:
            self._messages.put_nowait((message, lambda: link.acknowledge(report.number)))

    def _join(self, link: AgentLink, told: Agent) -> None:
        words = self._objects_to(told)
        if words is not None:
            log.warning("agent %s is refused: %s", told.id, words)
            link.end(code="elsewhere", message=words)
            return
        other = self._links.get(link.agent_id)
        if other is not None and not other.is_over and not _is_same(other.hello, link.hello):
            link.end(code="already_connected", message=f"another process is connected as {link.agent_id}")
            return
        if other is not None:
            other.end(code="replaced", message="the same agent has dialled in again")
        self._links[link.agent_id] = link
        self._presence.joined(link.agent_id)
        log.info("agent %s is connected (%s)", link.agent_id, link.hello.software_version)
        joined, self._joined = self._joined, asyncio.Event()
        joined.set()

    def _tell(self, message: AgentMessage) -> None:
        self._messages.put_nowait((message, lambda: None))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_S_MAX, self._timing.beat_s / 2))
            for link in tuple(self._meeting):
                self._look_at(link)
            for silent in self._presence.judge():
                log.warning("agent %s is %s", silent.agent_id, "lost" if silent.lost else "silent")
                self._tell(silent)

    def _look_at(self, link: AgentLink) -> None:
        if self._links.get(link.agent_id) is link:
            self._presence.heard(link.agent_id, at=link.heard_at)
        if silent_for_s(link) > self._timing.suspect_s:
            link.end(code="silent", message="the agent was silent for too long")
        elif link.key is not None and (words := self.refusal(link.agent_id, link.key)) is not None:
            link.end(code="key", message=words)


def _is_same(one: Hello, other: Hello) -> bool:
    return (one.boot_id, one.instance) == (other.boot_id, other.instance)
