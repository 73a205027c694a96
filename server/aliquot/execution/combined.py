"""Several executors behind the port of one."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack

from aliquot.service.ports import Executor
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import AgentMessage, Inventory, LaunchOrder, LogChunk


class CombinedExecutor:
    """Asks the executor that an agent belongs to."""

    def __init__(self, owners: Mapping[AgentId, Executor], *, otherwise: Executor) -> None:
        """Of agents that have no owner, `otherwise` is asked."""
        self._owners = dict(owners)
        self._otherwise = otherwise
        self._parts = tuple({id(part): part for part in (*self._owners.values(), otherwise)}.values())

    async def start(self) -> None:
        """Start all; when one fails, those started before are closed again."""
        async with AsyncExitStack() as started:
            for part in self._parts:
                await part.start()
                started.push_async_callback(part.close)
            started.pop_all()

    async def close(self) -> None:
        """Close all, in reverse; what fails to close keeps nothing else from it."""
        async with AsyncExitStack() as rest:
            for part in self._parts:
                rest.push_async_callback(part.close)

    async def messages(self) -> AsyncIterator[AgentMessage]:
        """What agents say, in the order of each agent, until all are closed. One reader."""
        taken: asyncio.Queue[AgentMessage | None] = asyncio.Queue(1)  # no message is taken before it is wanted

        async def pass_on(part: Executor) -> None:
            async for message in part.messages():
                await taken.put(message)
            await taken.put(None)

        passing = [asyncio.create_task(pass_on(part)) for part in self._parts]
        try:
            left = len(passing)
            while left:
                message = await taken.get()
                if message is None:
                    left -= 1
                else:
                    yield message
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)

    async def launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        """See `Executor.launch`."""
        await self._owner(agent_id).launch(agent_id, orders)

    async def stop(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, grace_ms: int) -> None:
        """See `Executor.stop`."""
        await self._owner(agent_id).stop(agent_id, kernel_id, epoch=epoch, grace_ms=grace_ms)

    async def send_signal(self, agent_id: AgentId, kernel_id: KernelId, *, epoch: int, signal: int) -> None:
        """See `Executor.send_signal`."""
        await self._owner(agent_id).send_signal(agent_id, kernel_id, epoch=epoch, signal=signal)

    async def inventory(self, agent_id: AgentId) -> Inventory:
        """See `Executor.inventory`."""
        return await self._owner(agent_id).inventory(agent_id)

    async def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """See `Executor.forget`."""
        await self._owner(agent_id).forget(agent_id, kernel_ids)

    def follow_log(self, agent_id: AgentId, kernel_id: KernelId, *, offset: int) -> AsyncIterator[LogChunk]:
        """See `Executor.follow_log`."""
        return self._owner(agent_id).follow_log(agent_id, kernel_id, offset=offset)

    def _owner(self, agent_id: AgentId) -> Executor:
        return self._owners.get(agent_id, self._otherwise)
