"""Gateway multiplexer: carries the server's connections to agents inside Ray actors.

`RayCluster` polls Ray's nodes, an `ActorSupervisor` keeps each node's actor up to date and its agents connected, and a
`Relay` carries the frames of one connection.
"""

import asyncio
import itertools
import logging
import time
from typing import Any, Final

from ray.exceptions import RayActorError, RayError

from aliquot.execution.ray.gateway.driver import RayNode, alive_nodes, end_actor, obtain_actor
from aliquot.execution.ray.hosting import ActorDescription
from aliquot.execution.ray.protocol import (
    ConnectionEnded,
    ConnectionOpened,
    Frame,
    FramesReceived,
    FromGateway,
    FromServer,
    Pipe,
    RayReachable,
    RayUnreachable,
)

BRING_BYTES_MAX: Final = 256 * 1024


class Relay:
    """One connection. Frames stay in order in each direction, because only one call of each kind is in progress."""

    def __init__(
        self, actor: Any, agent_id: str, *, connection: tuple[int, int, int], server: Pipe[FromServer]
    ) -> None:
        """
        Args:
            actor: a handle of a `NodeActor`.
        """
        self._actor = actor
        self._agent_id = agent_id
        self.connection = connection
        self._server = server
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()

    def enqueue(self, message: FromServer) -> None:
        """Queue a message of the server for the agent."""
        self._frames.put_nowait(message.data if isinstance(message, Frame) else None)

    async def run(self) -> None:
        """Announce the connection to the server, carry frames until either side ends it, and end it on the other side.

        Raises:
            RayActorError: the actor is gone.
        """
        *_, number = self.connection
        await self._send(ConnectionOpened(connection=number, agent_id=self._agent_id))
        tasks = [asyncio.create_task(work) for work in (self._fetch(number), self._bring(number))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        await self._send(ConnectionEnded(connection=number))
        await self._actor.disconnect.remote(self._agent_id, self.connection)

    async def _fetch(self, number: int) -> None:
        while (frames := await self._actor.fetch.remote(self._agent_id, self.connection)) is not None:
            for frame in frames:
                await self._send(Frame(connection=number, data=frame))

    async def _bring(self, number: int) -> None:
        is_open = True
        while is_open and (first := await self._frames.get()) is not None:
            frames, ends = self._waiting(first)
            is_open = await self._actor.bring.remote(self._agent_id, self.connection, frames) and not ends
            await self._send(FramesReceived(connection=number, size=sum(map(len, frames))))

    def _waiting(self, first: bytes) -> tuple[list[bytes], bool]:
        """(frames for one call, whether the connection ends after it)."""
        frames, size = [first], len(first)
        while not self._frames.empty() and size < BRING_BYTES_MAX:
            frame = self._frames.get_nowait()
            if frame is None:
                return frames, True
            frames.append(frame)
            size += len(frame)
        return frames, False

    async def _send(self, message: FromGateway) -> None:
        await self._server.send(message)


class Multiplexer:
    """Numbers connections and dispatches the server's messages.

    A connection's number starts with the server's epoch and the gateway's start time, so later gateways have greater
    ones.
    """

    def __init__(self, server: Pipe[FromServer], *, epoch: int = 0) -> None:
        self._server = server
        self._life = epoch, time.time_ns()
        self._numbers = itertools.count(1)
        self._relays: dict[int, Relay] = {}

    def relay(self, actor: Any, agent_id: str) -> Relay:
        """Create a connection to an agent; call `forget` when it has ended."""
        number = next(self._numbers)
        relay = Relay(actor, agent_id, connection=(*self._life, number), server=self._server)
        self._relays[number] = relay
        return relay

    def forget(self, relay: Relay) -> None:
        """Remove an ended connection."""
        self._relays.pop(relay.connection[-1], None)

    async def lost(self, relay: Relay) -> None:
        """Tell the server that the connection ended because the agent's process is gone or fails."""
        await self._server.send(ConnectionEnded(connection=relay.connection[-1], died=True))

    async def listen(self) -> None:
        """Dispatch the server's messages for ever.

        Raises:
            PipeBroken: the server is gone.
        """
        while True:
            message = await self._server.receive()
            relay = self._relays.get(message.connection)
            if relay is not None:
                relay.enqueue(message)


RETRY_S_MIN: Final = 0.2
RETRY_S_MAX: Final = 10.0
RECONNECT_S_MAX: Final = 3.0
STEADY_S: Final = 5.0
"""A connection that lasted longer resets the back-off."""

log: Final = logging.getLogger("aliquot.gateway")


class ActorOutdated(Exception):
    """The actor runs older code than its node has."""


class ActorSupervisor:
    """Keeps one node's actor running and its agents connected."""

    def __init__(self, node: RayNode, *, multiplexer: Multiplexer) -> None:
        self._node = node
        self._multiplexer = multiplexer
        self._problem: str | None = "its actor is being created"
        self._problems: dict[str, str | None] = {}

    @property
    def problem(self) -> str | None:
        """Why not all agents of the node are connected, in one line."""
        text = [self._problem] if self._problem else [f"{id}: {text}" for id, text in self._problems.items() if text]
        return f"node {self._node.hostname} ({self._node.address}): {'; '.join(text)}" if text else None

    @property
    def has_agent(self) -> bool:
        """Whether any agent of the node is connected."""
        return self._problem is None and None in self._problems.values()

    async def run(self) -> None:
        """Create the actor, connect its agents, and retry on errors, until cancelled."""
        wait_s = RETRY_S_MIN
        while True:
            try:
                actor = await asyncio.to_thread(obtain_actor, self._node)
                description: ActorDescription = await actor.describe.remote()
                await self._check_code(actor, description)
                if description["problem"] is None:
                    wait_s = RETRY_S_MIN
                self._problem = description["problem"]
                await asyncio.create_task(self._connect_all(actor, description["agents"]))  # as in `AgentSender.serve`
            except* (RayError, ActorOutdated) as errors:
                self._problem = _message(errors)
                log.info("node %s: %s", self._node.hostname, self._problem)
            except* Exception as faults:
                self._problem = _message(faults)
                log.error("node %s: its actor cannot be used", self._node.hostname, exc_info=faults)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)

    async def _check_code(self, actor: Any, description: ActorDescription) -> None:
        if description["loaded_code"] != description["installed_code"]:
            await asyncio.to_thread(end_actor, actor)
            raise ActorOutdated("its actor runs older code than is installed there and is being replaced")

    async def _connect_all(self, actor: Any, agents: list[str]) -> None:
        """Connect all agents; returns immediately without agents, else raises when the actor is gone or fails."""
        self._problems = dict.fromkeys(agents, "connecting")
        async with asyncio.TaskGroup() as group:
            for agent_id in agents:
                group.create_task(self._stay_connected(actor, agent_id))

    async def _stay_connected(self, actor: Any, agent_id: str) -> None:
        wait_s = RETRY_S_MIN
        while True:
            began = time.monotonic()
            relay = self._multiplexer.relay(actor, agent_id)
            connected = False
            try:
                self._problems[agent_id] = await actor.connect.remote(agent_id, relay.connection)
                connected = self._problems[agent_id] is None
                if connected:
                    await relay.run()
            except (RayError, asyncio.CancelledError):  # cancelled: the node is gone
                if connected:
                    await self._multiplexer.lost(relay)
                raise
            finally:
                self._multiplexer.forget(relay)
            # Back-off: a connection that ends early was refused, or the agent is not open.
            wait_s = RETRY_S_MIN if time.monotonic() - began > STEADY_S else min(2 * wait_s, RECONNECT_S_MAX)
            await asyncio.sleep(wait_s)


def _message(errors: BaseExceptionGroup[Exception]) -> str:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    lines = str(first).strip().splitlines() or [type(first).__name__]
    return lines[-1].strip() if isinstance(first, RayActorError) and len(lines) > 1 else lines[0].strip()


POLL_S: Final = 1.0
ANSWER_S_MAX: Final = 3.0
"""Time for Ray's control store to answer before it is reported as away."""


class RayCluster:
    """Polls Ray's nodes and runs one supervisor per living node."""

    def __init__(self, *, version: str, head: str, server: Pipe[FromServer], multiplexer: Multiplexer) -> None:
        self._version = version
        self._head = head
        self._server = server
        self._multiplexer = multiplexer
        self._supervisors: dict[RayNode, tuple[ActorSupervisor, asyncio.Task[None]]] = {}

    async def watch(self) -> None:
        """Poll and report for ever. Agents stay connected while Ray's control store is away."""
        while True:
            poll = asyncio.create_task(asyncio.to_thread(alive_nodes))
            while not (await asyncio.wait({poll}, timeout=ANSWER_S_MAX))[0]:
                await self._server.send(RayUnreachable(reason=f"Ray's control store at {self._head} does not answer"))
            try:
                nodes = poll.result()
            except Exception as error:
                text = str(error).partition("\n")[0] or type(error).__name__
                await self._server.send(RayUnreachable(reason=f"Ray's control store at {self._head}: {text}"))
            else:
                await self._update(nodes)
            await asyncio.sleep(POLL_S)

    async def _update(self, nodes: tuple[RayNode, ...]) -> None:
        for node in self._supervisors.keys() - set(nodes):
            log.info("node %s (%s) has left", node.hostname, node.address)
            _, task = self._supervisors.pop(node)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for node in nodes:
            if node.wants_agent and node not in self._supervisors:
                log.info("node %s (%s) has joined", node.hostname, node.address)
                supervisor = ActorSupervisor(node, multiplexer=self._multiplexer)
                self._supervisors[node] = supervisor, asyncio.create_task(supervisor.run())
        supervisors = [supervisor for supervisor, _ in self._supervisors.values()]
        await self._server.send(
            RayReachable(
                version=self._version,
                nodes=len(nodes),
                workers=sum(supervisor.has_agent for supervisor in supervisors),
                problems=tuple(supervisor.problem for supervisor in supervisors if supervisor.problem),
            )
        )
