"""Gateway client: the server's side of one gateway process and of the agent connections that it carries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from aliquot.execution.ray.protocol import (
    CREDIT_BYTES,
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
from aliquot.execution.remote.codec import Wire
from aliquot_schema.ids import AgentId


class GatewayWire:
    """A `Wire` (see `remote.codec`) with at most `CREDIT_BYTES` unacknowledged bytes to the agent."""

    def __init__(self, connection: int, *, send: Callable[[FromServer], Awaitable[None]]) -> None:
        self._connection = connection
        self._send = send
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._unacknowledged = 0
        self._changed = asyncio.Condition()
        self._is_over = False

    async def send(self, data: bytes) -> None:
        """Send a frame; waits while the credit is used up."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over or self._unacknowledged < CREDIT_BYTES)
            if self._is_over:
                return
            self._unacknowledged += len(data)
        await self._send(Frame(connection=self._connection, data=data))

    async def receive(self) -> bytes | None:
        """The next frame; None at the end of the connection."""
        frame = None if self._is_over and self._frames.empty() else await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
        return frame

    async def close(self, *, code: int, reason: str) -> None:  # noqa: ARG002 # the signature is the protocol's
        """End the connection."""
        if not self._is_over:
            await self.end()
            await self._send(ConnectionEnded(connection=self._connection))

    def add(self, data: bytes) -> None:
        """Add a received frame."""
        self._frames.put_nowait(data)

    async def taken(self, size: int) -> None:
        """The agent has received `size` bytes."""
        async with self._changed:
            self._unacknowledged -= size
            self._changed.notify_all()

    async def end(self) -> None:
        """End the connection; frames already received can still be read."""
        self._frames.put_nowait(None)
        async with self._changed:
            self._is_over = True
            self._changed.notify_all()


SILENCE_S_MAX: Final = 20.0
"""A gateway sends several messages in this time; one that sends none is terminated."""

log: Final = logging.getLogger("aliquot.ray")


class Agents(Protocol):
    """Handles the agents' connections, see `RemoteExecutor`."""

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None) -> None:
        """Serve one connection until its end."""

    def missed(self, agent_id: AgentId) -> None:
        """Report that the agent's process is gone."""


@dataclass(slots=True)
class _Connection:
    agent_id: AgentId
    wire: GatewayWire
    task: asyncio.Task[None]


class GatewayClient:
    """Serves one gateway process; all connections end with it."""

    def __init__(
        self, pipe: Pipe[FromGateway], *, agents: Agents, on_status: Callable[[RayReachable | RayUnreachable], None]
    ) -> None:
        self._pipe = pipe
        self._agents = agents
        self._on_status = on_status
        self._connections: dict[int, _Connection] = {}

    async def run(self) -> None:
        """Process messages until the gateway is gone.

        Raises:
            PipeBroken: the gateway is gone.
            TimeoutError: the gateway was silent for `SILENCE_S_MAX`.
        """
        try:
            while True:
                async with asyncio.timeout(SILENCE_S_MAX):
                    message = await self._pipe.receive()
                await self._handle(message)
        finally:
            for entry in tuple(self._connections.values()):
                await entry.wire.end()
            await asyncio.gather(*(entry.task for entry in self._connections.values()), return_exceptions=True)

    async def _handle(self, message: FromGateway) -> None:
        match message:
            case RayReachable() | RayUnreachable():
                self._on_status(message)
            case ConnectionOpened(connection=connection, agent_id=agent_id):
                self._open(connection, AgentId(agent_id))
            case Frame(connection=connection, data=data):
                if connection in self._connections:
                    self._connections[connection].wire.add(data)
            case FramesReceived(connection=connection, size=size):
                if connection in self._connections:
                    await self._connections[connection].wire.taken(size)
            case ConnectionEnded(connection=connection, died=died):
                await self._close(connection, died=died)

    def _open(self, connection: int, agent_id: AgentId) -> None:
        wire = GatewayWire(connection, send=self._pipe.send)
        task = asyncio.get_running_loop().create_task(self._meet(connection, wire, agent_id))
        self._connections[connection] = _Connection(agent_id, wire, task)

    async def _meet(self, connection: int, wire: GatewayWire, agent_id: AgentId) -> None:
        try:
            await self._agents.meet(wire, agent_id=agent_id, key=None)
        except Exception:
            log.exception("the connection to agent %s failed", agent_id)
        finally:
            await wire.close(code=1000, reason="")
            self._connections.pop(connection, None)

    async def _close(self, connection: int, *, died: bool) -> None:
        entry = self._connections.get(connection)
        if entry is None:
            return
        await entry.wire.end()
        if died:
            await entry.task
            self._agents.missed(entry.agent_id)
