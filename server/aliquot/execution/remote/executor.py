"""Remote executor: the port `Executor` over agents that connect to the server, with detection of silent agents; and the
gateway that refuses agents while another server leads."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Final

from aliquot.execution.remote.agent_keys import AgentKeys, key_refusal
from aliquot.execution.remote.codec import (
    HELLO_BYTES_MAX,
    INVENTORY_BYTES_MAX,
    Channel,
    ChannelClosed,
    ProtocolError,
    Wire,
)
from aliquot.execution.remote.link import AgentLink, close_with_refusal, silent_for_s
from aliquot.execution.remote.presence import HeartbeatTiming, Presence
from aliquot.service.ports import ByteStream
from aliquot_schema.cluster.agent_protocol import (
    NOT_LEADER,
    PROTOCOLS,
    DevicesReport,
    Forget,
    Hello,
    KernelChangeReport,
    Launch,
    ReadingsReport,
    Refusal,
    Report,
    SendSignal,
    StateReport,
    Stop,
    TellInventory,
    Welcome,
    agreed_protocol,
    disagreement,
    message_fault,
)
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    AgentSilent,
    DevicesChanged,
    Inventory,
    KernelChanged,
    LaunchOrder,
    LogChunk,
    NewReadings,
)
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId

CHECK_S_MAX: Final = 0.5
"""Interval between two checks of silence and keys, unless a check takes long."""
CHECK_FACTOR: Final = 20
"""A check of thousands of agents takes long. The next one waits for this multiple, at most for a heartbeat interval."""
CHECKED_AT_ONCE: Final = 100
"""Connections that are checked without yielding to the event loop."""

log: Final = logging.getLogger("aliquot.agents")

Acknowledge = Callable[[], None]


class RemoteExecutor:
    """Executor over connections. Messages are ordered per agent and acknowledged after they were processed."""

    def __init__(
        self,
        *,
        keys: AgentKeys,
        timing: HeartbeatTiming,
        now_us: Callable[[], int],
        expected: Iterable[AgentId] = (),
        taken_ids: frozenset[AgentId] = frozenset(),
        software_version: str = "",
        epoch: int = 0,
        objection: Callable[[Agent], str | None] = lambda _: None,
        on_broken: Callable[[AgentId, str | None], None] = lambda _agent_id, _reason: None,
    ) -> None:
        """
        Args:
            expected: agents known to an earlier server, which may connect again.
            taken_ids: agents of the server itself; their ids are refused.
            epoch: epoch of the leader's term; 0 = a standalone server.
            objection: returns why an agent may not join with this description; None = it may.
            on_broken: called with the reason for each agent that is refused for an invalid message, and with None
                when it has joined.
        """
        self._keys = keys
        self._timing = timing
        self._now_us = now_us
        self._expected = frozenset(expected) - taken_ids
        self._taken_ids = taken_ids
        self._software_version = software_version
        self._epoch = epoch
        self._objection_to = objection
        self._on_broken = on_broken
        self._broken: dict[AgentId, str] = {}
        """Last logged reason per refused agent."""
        self._presence = Presence(timing, expected=())
        self._links: dict[AgentId, AgentLink] = {}
        self._connections: set[AgentLink] = set()
        self._heard: dict[AgentId, float] = {}
        """By agent: when it was last heard before its last disconnection, seconds of the monotonic clock."""
        self._began = time.monotonic()
        self._joined = asyncio.Event()
        self._is_closed = False
        self._messages: asyncio.Queue[tuple[AgentMessage, Acknowledge] | None] = asyncio.Queue()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to check agents for silence."""
        self._presence = Presence(self._timing, expected=self._expected)
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        """End the connections; kernels keep running, and the agents reconnect."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for link in self._connections:
            link.end(code="broken", message="the server is stopping")
        self._is_closed = True
        self._joined.set()
        self._messages.put_nowait(None)

    def refusal(self, agent_id: str, key: str) -> str | None:
        """Why this key is refused for this agent; None = it is valid."""
        return key_refusal(self._keys, agent_id=agent_id, key=key)

    async def meet(
        self, wire: Wire, *, agent_id: str, key: str | None, on_joined: Callable[[], None] = lambda: None
    ) -> None:
        """Serve one connection until its end.

        Args:
            key: the agent's verified key; None if the transport has authenticated the agent.
            on_joined: called when the agent has been registered.
        """
        channel = Channel(wire, bytes_max=HELLO_BYTES_MAX)
        try:
            async with asyncio.timeout(self._timing.greet_s):
                hello = await self._receive_hello(channel, agent_id)
        except (TimeoutError, ChannelClosed):
            return
        except ProtocolError as error:
            await self._refuse(channel, agent_id, Refusal(code="broken", message=str(error)))
            return
        refusal = self._refusal_of(hello)
        if refusal is not None:
            await self._refuse(channel, agent_id, refusal)
            return
        channel.expect(INVENTORY_BYTES_MAX)
        with suppress(ChannelClosed):
            timing = self._timing.among(len(self._connections))
            await channel.send(self._welcome(hello, timing))
            if not hello.probe:
                link = AgentLink(channel, hello=hello, key=key, timing=timing, accept=self._accept, on_joined=on_joined)
                await self._serve(link)

    def missed(self, agent_id: AgentId) -> None:
        """Report that the agent's process is gone; the agent is silent immediately, without the usual wait."""
        if agent_id not in self._links:
            self._presence.missed(agent_id)

    async def messages(self) -> AsyncIterator[AgentMessage]:
        """Messages of all agents until `close`; ordered per agent. Supports one reader."""
        while (entry := await self._messages.get()) is not None:
            message, acknowledge = entry
            yield message
            acknowledge()

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """See `AgentCore.launch`."""
        await self._link(agent_id).ask(Launch(request=0, orders=tuple(orders)))

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """See `AgentCore.stop`."""
        await self._link(agent_id).ask(Stop(request=0, kernel_id=kernel_id, epoch=epoch, grace_ms=grace_ms))

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """See `AgentCore.send_signal`."""
        await self._link(agent_id).ask(SendSignal(request=0, kernel_id=kernel_id, epoch=epoch, signal=signal))

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        """See `AgentCore.set_limit`; an agent of an earlier version is not available."""
        await self._link(agent_id).set_limit(kernel_id, epoch=epoch, time_limit_ms=time_limit_ms)

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """See `AgentCore.inventory`."""
        link = self._link(agent_id)
        answer = await link.ask(TellInventory(request=0))
        if answer.inventory is None:
            raise Unavailable(f"agent {agent_id} answered without an inventory")
        return link.described(answer.inventory)

    async def has_account(self, agent_id: AgentId, account: str) -> bool | None:
        """See `AgentCore.has_account`; None for an older agent."""
        return (await self._link(agent_id).ask(TellInventory(request=0, account=account))).account_exists

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """See `AgentCore.forget`."""
        await self._link(agent_id).notify(Forget(kernel_ids=tuple(kernel_ids)))

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """See `AgentCore.open_stream`."""
        return await self._link(agent_id).open_stream(kernel_id, target)

    async def follow_log(
        self, agent_id: AgentId, kernel_id: KernelId, *, offset: int
    ) -> AsyncGenerator[LogChunk, None]:
        """See `AgentCore.follow_log`. Continues at the same byte if the agent reconnects before it is lost.

        Before the first byte, it fails as soon as the agent is suspect.
        """
        wait_s = self._timing.suspect_s
        while True:
            link = await self._linked(agent_id, wait_s=wait_s)
            try:
                async with aclosing(link.follow(kernel_id, offset=offset)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                        wait_s = self._timing.lost_s
                        offset = chunk.offset + len(chunk.data)
                return
            except Unavailable:
                if not link.is_over:
                    raise

    def _link(self, agent_id: AgentId) -> AgentLink:
        link = self._links.get(agent_id)
        if link is None:
            raise Unavailable(self._absence(agent_id))
        return link

    async def _linked(self, agent_id: AgentId, *, wait_s: float) -> AgentLink:
        """The connection of an agent; waits for one until `wait_s` after the agent was last heard."""
        give_up = self._heard.get(agent_id, self._began) + wait_s
        with suppress(TimeoutError):
            async with asyncio.timeout(give_up - time.monotonic()):
                while (link := self._links.get(agent_id)) is None or link.is_over:
                    if self._is_closed:  # the agents connect to another server, or to this one's next term
                        raise Unavailable(f"agent {agent_id} is no longer connected to this server")
                    await self._joined.wait()
        return self._link(agent_id)

    def _absence(self, agent_id: AgentId) -> str:
        heard = self._heard.get(agent_id)
        ago_s = time.monotonic() - (self._began if heard is None else heard)
        since = f"{datetime.fromtimestamp(self._now_us() / 1e6 - ago_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if heard is None:
            return f"agent {agent_id} has not connected since {since}, when this server began to lead"
        return f"agent {agent_id} does not answer: it was last heard at {since}"

    async def _receive_hello(self, channel: Channel, agent_id: str) -> Hello:
        hello = await channel.receive()
        if not isinstance(hello, Hello) or hello.agent_id != agent_id:
            raise ProtocolError("the first message is not the hello of the agent that the key belongs to")
        reason = message_fault(hello)
        if reason is not None:
            raise ProtocolError(f"invalid hello: {reason}")
        return hello

    async def _refuse(self, channel: Channel, agent_id: str, refusal: Refusal) -> None:
        log.warning("agent %.80s is refused: %s", agent_id, refusal.message)
        await close_with_refusal(channel, refusal)

    def _refusal_of(self, hello: Hello) -> Refusal | None:
        if agreed_protocol(agent=hello.protocols, server=PROTOCOLS) is None:
            mine = self._software_version
            reason = disagreement(
                agent=hello.protocols, server=PROTOCOLS, agent_version=hello.software_version, server_version=mine
            )
            return Refusal(code="protocol", message=reason)
        if hello.agent_id in self._taken_ids:
            reason = f"{hello.agent_id} is an agent of the server itself; choose another name with --id"
            return Refusal(code="already_connected", message=reason)
        other = self._links.get(hello.agent_id)
        if hello.probe or other is None or other.is_over or _is_same(other.hello, hello):
            return None
        reason = f"another process is connected as {hello.agent_id}: stop it, or use another --id with its own key"
        return Refusal(code="already_connected", message=reason)

    def _welcome(self, hello: Hello, timing: HeartbeatTiming) -> Welcome:
        protocol = agreed_protocol(agent=hello.protocols, server=PROTOCOLS)
        assert protocol is not None
        return Welcome(
            protocol=protocol,
            software_version=self._software_version,
            beat_s=timing.beat_s,
            now_us=self._now_us(),
            epoch=self._epoch,
        )

    async def _serve(self, link: AgentLink) -> None:
        self._connections.add(link)
        try:
            await link.run()
        finally:
            self._connections.discard(link)
            if link.fault is not None:
                self._record_broken(link.agent_id, link.fault)
            self._presence.seen(link.agent_id, at=link.heard_at)
            if self._links.get(link.agent_id) is link:
                del self._links[link.agent_id]
                self._heard[link.agent_id] = link.heard_at
                log.info("agent %s is no longer connected", link.agent_id)
                if link.has_left:
                    self._presence.left(link.agent_id)
                    self._emit(AgentSilent(agent_id=link.agent_id, gone=True))

    def _accept(self, link: AgentLink, report: Report) -> None:
        agent_id = link.agent_id
        message: AgentMessage
        match report:
            case StateReport():
                self._join(link, report.inventory.agent)
                message = AgentJoined(inventory=link.described(report.inventory))
            case DevicesReport():
                message = DevicesChanged(inventory=link.described(report.inventory))
            case ReadingsReport():
                message = NewReadings(
                    agent_id=agent_id,
                    at_us=report.at_us,
                    readings=report.readings,
                    disk_shortage=report.disk_shortage,
                    host_uses=report.host_uses,
                    copy_fault=report.copy_fault,
                )
            case KernelChangeReport():
                message = KernelChanged(agent_id=agent_id, report=report.report)
        if self._links.get(agent_id) is link:
            self._messages.put_nowait((message, lambda: link.acknowledge(report.number)))

    def _join(self, link: AgentLink, changes: Agent) -> None:
        reason = self._objection_to(changes)
        if reason is not None:
            log.warning("agent %s is refused: %s", changes.id, reason)
            link.end(code="elsewhere", message=reason)
            return
        other = self._links.get(link.agent_id)
        if other is not None and not other.is_over and not _is_same(other.hello, link.hello):
            link.end(code="already_connected", message=f"another process is connected as {link.agent_id}")
            return
        if other is not None:
            other.end(code="replaced", message="the same agent has connected again")
        self._links[link.agent_id] = link
        self._presence.joined(link.agent_id, link.timing)
        self._on_broken(link.agent_id, None)
        log.info("agent %s is connected (%s)", link.agent_id, link.hello.software_version)
        joined, self._joined = self._joined, asyncio.Event()
        joined.set()

    def _record_broken(self, agent_id: AgentId, reason: str) -> None:
        """Log each reason once: the agent keeps reconnecting."""
        self._on_broken(agent_id, reason)
        if self._broken.get(agent_id) != reason:
            self._broken[agent_id] = reason
            log.warning("agent %s is refused as broken: %s; correct its configuration or upgrade it", agent_id, reason)

    def _emit(self, message: AgentMessage) -> None:
        self._messages.put_nowait((message, lambda: None))

    async def _watch(self) -> None:
        took_s = 0.0
        while True:
            usual_s = min(CHECK_S_MAX, self._timing.beat_s / 2)
            await asyncio.sleep(max(usual_s, min(CHECK_FACTOR * took_s, self._timing.beat_s)))
            began = time.monotonic()
            for number, link in enumerate(tuple(self._connections), 1):
                self._check_link(link)
                if number % CHECKED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            for silent in self._presence.judge():
                log.warning("agent %s is %s", silent.agent_id, "lost" if silent.lost else "silent")
                self._emit(silent)
            took_s = time.monotonic() - began

    def _check_link(self, link: AgentLink) -> None:
        if self._links.get(link.agent_id) is link:
            self._presence.seen(link.agent_id, at=link.heard_at)
        if silent_for_s(link) > link.timing.suspect_s:
            link.end(code="silent", message=f"the agent was silent for more than {link.timing.suspect_s:g} s")
        elif link.key is not None and (reason := self.refusal(link.agent_id, link.key)) is not None:
            link.end(code="key", message=reason)


def _is_same(one: Hello, other: Hello) -> bool:
    return (one.boot_id, one.instance) == (other.boot_id, other.instance)


class RemoteGateway:
    """Accepts agents while this server leads."""

    def __init__(
        self, keys: AgentKeys, *, executor: Callable[[], RemoteExecutor | None], leader: Callable[[], str | None]
    ) -> None:
        """
        Args:
            executor: returns that of the present term; None while this server does not lead.
            leader: returns the address of the leading server; None = unknown.
        """
        self._keys = keys
        self._leader = leader
        self._executor = executor

    def refusal(self, agent_id: str, key: str) -> str | None:
        """Why this key is refused for this agent; None = it is valid."""
        return key_refusal(self._keys, agent_id=agent_id, key=key)

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None, on_joined: Callable[[], None]) -> None:
        """Serve one connection until its end; refuse it if another server leads."""
        executor = self._executor()
        if executor is not None:
            await executor.meet(wire, agent_id=agent_id, key=key, on_joined=on_joined)
            return
        leader = self._leader() or ""
        message = f"{leader} is leading; connect there" if leader else "no server is leading yet; try again"
        await close_with_refusal(Channel(wire), Refusal(code=NOT_LEADER, message=message, leader=leader))
