"""Agents in the server's own process: the embedded default."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from aliquot.execution.agent.core import AgentCore
from aliquot.execution.remote.connection_mark import marked
from aliquot_schema.errors import Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import AgentJoined, AgentMessage, AgentSilent, Inventory, LaunchOrder, LogChunk

AgentFactory = Callable[[], AgentCore]


class LocalExecutor:
    """The port `Executor` over agents of this process. Kernels outlive it."""

    def __init__(self, agents: Mapping[AgentId, AgentFactory]) -> None:
        """Open nothing yet.

        Args:
            agents: how to make each agent; called again for each restart.
        """
        self._factories = dict(agents)
        self._agents: dict[AgentId, AgentCore] = {}
        self._readers: dict[AgentId, asyncio.Task[None]] = {}
        self._messages: asyncio.Queue[AgentMessage | None] = asyncio.Queue()

    async def start(self) -> None:
        """Open every agent, all at once.

        Raises:
            AliquotError: an agent cannot be opened; those opened before are closed again.
        """
        try:
            async with asyncio.TaskGroup() as opening:
                for agent_id in self._factories:
                    opening.create_task(self._open(agent_id))
        except BaseExceptionGroup as failures:
            await self.close()
            raise failures.exceptions[0] from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of the agents; kernels run on."""
        for agent_id in tuple(self._agents):
            await self._close(agent_id)
        self._messages.put_nowait(None)

    async def restart_agent(self, agent_id: AgentId) -> None:
        """Close an agent and open it afresh from its files, as after a crash.

        Raises:
            Unavailable: there is no such agent.
        """
        if agent_id not in self._factories:
            raise Unavailable(f"there is no agent {agent_id} in this process")
        if agent_id in self._agents:
            await self._close(agent_id)
            self._messages.put_nowait(AgentSilent(agent_id=agent_id))
        await self._open(agent_id)

    async def messages(self) -> AsyncIterator[AgentMessage]:
        """What agents say, in the order of each agent, until `close`. One reader."""
        while (message := await self._messages.get()) is not None:
            yield message

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """See `AgentCore.launch`."""
        await self._agent(agent_id).launch(orders)

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """See `AgentCore.stop`."""
        await self._agent(agent_id).stop(kernel_id, epoch=epoch, grace_ms=grace_ms)

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """See `AgentCore.send_signal`."""
        await self._agent(agent_id).send_signal(kernel_id, epoch=epoch, signal=signal)

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """See `AgentCore.inventory`."""
        return await self._agent(agent_id).inventory()

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `AgentCore.follow_log`."""
        async for chunk in self._agent(agent_id).follow_log(kernel_id, offset=offset):
            yield chunk

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """See `AgentCore.forget`."""
        await self._agent(agent_id).forget(kernel_ids)

    def _agent(self, agent_id: AgentId) -> AgentCore:
        agent = self._agents.get(agent_id)
        if agent is None:
            raise Unavailable(f"agent {agent_id} is not open in this process")
        return agent

    async def _open(self, agent_id: AgentId) -> None:
        agent = self._factories[agent_id]()
        inventory = await agent.open()
        self._messages.put_nowait(AgentJoined(inventory=inventory))
        self._agents[agent_id] = agent
        self._readers[agent_id] = asyncio.get_running_loop().create_task(self._read(agent))

    async def _close(self, agent_id: AgentId) -> None:
        await self._agents.pop(agent_id).close()
        await self._readers.pop(agent_id)

    async def _read(self, agent: AgentCore) -> None:
        async with marked(agent.config.folder):  # its server is in the same process
            async for message in agent.reports():
                self._messages.put_nowait(message)
