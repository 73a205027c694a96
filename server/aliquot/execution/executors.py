"""Executors: `LocalExecutor` runs agents in the server's own process, `CombinedExecutor` routes by agent."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from aliquot.execution.agent.agent import AgentCore
from aliquot.execution.remote.connection_file import marked
from aliquot.service.ports import ByteStream, Executor
from aliquot_schema.cluster.launching import (
    AgentJoined,
    AgentMessage,
    DevicesChanged,
    Inventory,
    LaunchOrder,
    LogChunk,
    inventory_fault,
)
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.ids import AgentId, KernelId

AgentFactory = Callable[[], AgentCore]

log: Final = logging.getLogger("aliquot.agents")


class CombinedExecutor:
    """Several executors behind one port: each call goes to the executor that owns the agent."""

    def __init__(self, owners: Mapping[AgentId, Executor], *, otherwise: Executor) -> None:
        """`otherwise` handles every agent that `owners` does not list."""
        self._owners = dict(owners)
        self._otherwise = otherwise
        self._parts = tuple({id(part): part for part in (*self._owners.values(), otherwise)}.values())

    async def start(self) -> None:
        """Start all executors; when one fails, those already started are closed."""
        async with AsyncExitStack() as started:
            for part in self._parts:
                await part.start()
                started.push_async_callback(part.close)
            started.pop_all()

    async def close(self) -> None:
        """Close all executors in reverse order; a failure does not prevent the others from closing."""
        async with AsyncExitStack() as rest:
            for part in self._parts:
                rest.push_async_callback(part.close)

    async def messages(self) -> AsyncIterator[AgentMessage]:
        """Messages of all agents until all executors are closed; ordered per agent. Supports one reader."""
        merged: asyncio.Queue[AgentMessage | None] = asyncio.Queue(1)  # back-pressure: read only what is consumed

        async def forward(part: Executor) -> None:
            async for message in part.messages():
                await merged.put(message)
            await merged.put(None)

        forwarders = [asyncio.create_task(forward(part)) for part in self._parts]
        try:
            running = len(forwarders)
            while running:
                message = await merged.get()
                if message is None:
                    running -= 1
                else:
                    yield message
        finally:
            for task in forwarders:
                task.cancel()
            await asyncio.gather(*forwarders, return_exceptions=True)

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """See `Executor.launch`."""
        await self._owner(agent_id).launch(agent_id, orders)

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """See `Executor.stop`."""
        await self._owner(agent_id).stop(agent_id, kernel_id, epoch=epoch, grace_ms=grace_ms)

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """See `Executor.send_signal`."""
        await self._owner(agent_id).send_signal(agent_id, kernel_id, epoch=epoch, signal=signal)

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        """See `Executor.set_limit`."""
        await self._owner(agent_id).set_limit(agent_id, kernel_id, epoch=epoch, time_limit_ms=time_limit_ms)

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """See `Executor.inventory`."""
        return await self._owner(agent_id).inventory(agent_id)

    async def has_account(self, agent_id: AgentId, account: str) -> bool | None:
        """See `Executor.has_account`."""
        return await self._owner(agent_id).has_account(agent_id, account)

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """See `Executor.forget`."""
        await self._owner(agent_id).forget(agent_id, kernel_ids)

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`."""
        return self._owner(agent_id).follow_log(agent_id, kernel_id, offset=offset)

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """See `Executor.open_stream`."""
        return await self._owner(agent_id).open_stream(agent_id, kernel_id, target)

    def _owner(self, agent_id: AgentId) -> Executor:
        return self._owners.get(agent_id, self._otherwise)


class LocalExecutor:
    """The port `Executor` over agents in this process. Kernels outlive it."""

    def __init__(self, agents: Mapping[AgentId, AgentFactory]) -> None:
        """Agents are opened by `start`.

        Args:
            agents: one factory per agent; called again for each restart.
        """
        self._factories = dict(agents)
        self._agents: dict[AgentId, AgentCore] = {}
        self._readers: dict[AgentId, asyncio.Task[None]] = {}
        self._messages: asyncio.Queue[AgentMessage | None] = asyncio.Queue()

    async def start(self) -> None:
        """Open all agents concurrently.

        Raises:
            AliquotError: an agent cannot be opened or has an invalid inventory; all agents are closed again.
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
        """Close the agents; kernels keep running."""
        for agent_id in tuple(self._agents):
            await self._close(agent_id)
        self._messages.put_nowait(None)

    async def messages(self) -> AsyncIterator[AgentMessage]:
        """Messages of all agents until `close`; ordered per agent. Supports one reader."""
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

    async def set_limit(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, time_limit_ms: int) -> None:
        """See `AgentCore.set_limit`."""
        await self._agent(agent_id).set_limit(kernel_id, epoch=epoch, time_limit_ms=time_limit_ms)

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """See `AgentCore.inventory`."""
        return await self._agent(agent_id).inventory()

    async def has_account(self, agent_id: AgentId, account: str) -> bool | None:
        """See `AgentCore.has_account`."""
        return await self._agent(agent_id).has_account(account)

    async def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `AgentCore.follow_log`."""
        async for chunk in self._agent(agent_id).follow_log(kernel_id, offset=offset):
            yield chunk

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: StreamTarget) -> ByteStream:
        """See `AgentCore.open_stream`."""
        return await self._agent(agent_id).open_stream(kernel_id, target)

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
        fault = inventory_fault(inventory)
        if fault is not None:
            await agent.close()
            raise InvalidRequest(f"agent {agent_id} cannot be started: {fault}", field="devices")
        self._messages.put_nowait(AgentJoined(inventory=inventory))
        self._agents[agent_id] = agent
        self._readers[agent_id] = asyncio.get_running_loop().create_task(self._read(agent))

    async def _close(self, agent_id: AgentId) -> None:
        await self._agents.pop(agent_id).close()
        await self._readers.pop(agent_id)

    async def _read(self, agent: AgentCore) -> None:
        async with marked(agent.config.folder):  # connected by definition: the server is in the same process
            async for message in agent.reports():
                fault = inventory_fault(message.inventory) if isinstance(message, DevicesChanged) else None
                if fault is not None:
                    log.warning("agent %s: a change of its devices is ignored: %s", agent.config.id, fault)
                    continue
                self._messages.put_nowait(message)
