"""One life of the gateway: hands what it says to the connections, and keeps what it knows of Ray."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from aliquot.execution.ray.gateway_wire import GatewayWire
from aliquot.execution.ray.messages import Apart, Closed, Frame, FromGateway, Joined, Opened, Taken
from aliquot.execution.ray.pipe import Pipe
from aliquot.execution.remote.channel import Wire
from aliquot_schema.ids import AgentId

SILENCE_S_MAX: Final = 20.0
"""A gateway tells how Ray is several times in this; one that does not is ended."""

log: Final = logging.getLogger("aliquot.ray")


class Agents(Protocol):
    """Who talks to the agents."""

    async def meet(self, wire: Wire, *, agent_id: str, key: str | None) -> None:
        """Serve one connection until its end."""

    def missed(self, agent_id: AgentId) -> None:
        """The agent's process is gone."""


@dataclass(slots=True)
class _Meeting:
    agent_id: AgentId
    wire: GatewayWire
    task: asyncio.Task[None]


class Exchange:
    """Ends with the gateway; every connection ends with it."""

    def __init__(self, pipe: Pipe[FromGateway], *, agents: Agents, tell: Callable[[Joined | Apart], None]) -> None:
        self._pipe = pipe
        self._agents = agents
        self._tell = tell
        self._meetings: dict[int, _Meeting] = {}

    async def run(self) -> None:
        """Carry messages until the gateway is gone.

        Raises:
            PipeBroken: it is.
            TimeoutError: it says nothing any more.
        """
        try:
            while True:
                async with asyncio.timeout(SILENCE_S_MAX):
                    message = await self._pipe.receive()
                await self._hear(message)
        finally:
            for meeting in tuple(self._meetings.values()):
                await meeting.wire.end()
            await asyncio.gather(*(meeting.task for meeting in self._meetings.values()), return_exceptions=True)

    async def _hear(self, message: FromGateway) -> None:
        match message:
            case Joined() | Apart():
                self._tell(message)
            case Opened(connection=connection, agent_id=agent_id):
                self._open(connection, AgentId(agent_id))
            case Frame(connection=connection, data=data):
                if connection in self._meetings:
                    self._meetings[connection].wire.take(data)
            case Taken(connection=connection, size=size):
                if connection in self._meetings:
                    await self._meetings[connection].wire.taken(size)
            case Closed(connection=connection, died=died):
                await self._close(connection, died=died)

    def _open(self, connection: int, agent_id: AgentId) -> None:
        wire = GatewayWire(connection, send=self._pipe.send)
        task = asyncio.get_running_loop().create_task(self._meet(connection, wire, agent_id))
        self._meetings[connection] = _Meeting(agent_id, wire, task)

    async def _meet(self, connection: int, wire: GatewayWire, agent_id: AgentId) -> None:
        try:
            await self._agents.meet(wire, agent_id=agent_id, key=None)
        except Exception:
            log.exception("the connection to agent %s failed", agent_id)
        finally:
            await wire.close(code=1000, reason="")
            self._meetings.pop(connection, None)

    async def _close(self, connection: int, *, died: bool) -> None:
        meeting = self._meetings.get(connection)
        if meeting is None:
            return
        await meeting.wire.end()
        if died:
            await meeting.task
            self._agents.missed(meeting.agent_id)
