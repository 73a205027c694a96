"""Dispatch: hands orders and stops to agents in the background; what one did not get is sent again when it joins."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aliquot.service.measuring.log_fields import logging_with
from aliquot.service.ports import Executor
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.leases import Kernel

log: Final = logging.getLogger("aliquot.dispatch")


class Dispatch:
    """Fire and remember: tasks are kept until they end, and an agent that cannot be asked is no error."""

    def __init__(
        self,
        executor: Executor,
        *,
        epoch: int,
        grace_ms: int,
        filled: Callable[[Sequence[LaunchOrder]], Awaitable[Sequence[LaunchOrder]]] | None = None,
    ) -> None:
        """
        Args:
            filled: gives orders what is not to be in memory before they are sent: the values of secrets.
        """
        self._executor = executor
        self._epoch = epoch
        self._grace_ms = grace_ms
        self._filled = filled
        self._tasks: set[asyncio.Task[None]] = set()

    def launch(self, orders: Mapping[AgentId, Sequence[LaunchOrder]]) -> None:
        """Send orders, all agents at once."""
        for agent_id, batch in orders.items():
            self._spawn(agent_id, self._launch(agent_id, batch))

    def stop(self, kernels: Iterable[Kernel], *, grace_ms: int | None = None) -> None:
        """Ask kernels to end, politely first.

        Args:
            grace_ms: how long that is waited for; None = as long as usual.
        """
        for kernel in kernels:
            grace = self._grace_ms if grace_ms is None else grace_ms
            self._spawn(kernel.agent_id, self._stop(kernel, grace_ms=grace))

    def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """Let an agent tell no more of kernels whose end is durable."""
        if kernel_ids:
            self._spawn(agent_id, self._forget(agent_id, kernel_ids))

    def send_signal(self, kernels: Iterable[Kernel], signal: int) -> None:
        """Send a signal to the main processes of kernels."""
        for kernel in kernels:
            self._spawn(kernel.agent_id, self._send_signal(kernel, signal))

    async def close(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        try:
            await self._executor.launch(agent_id, orders if self._filled is None else await self._filled(orders))
        except Unavailable as error:
            log.warning("agent %s did not take %d orders: %s", agent_id, len(orders), error.message)

    async def _stop(self, kernel: Kernel, *, grace_ms: int) -> None:
        try:
            await self._executor.stop(kernel.agent_id, kernel.id, epoch=self._epoch, grace_ms=grace_ms)
        except AliquotError as error:
            log.warning("agent %s was not told to stop %s: %s", kernel.agent_id, kernel.id, error.message)

    async def _send_signal(self, kernel: Kernel, signal: int) -> None:
        try:
            await self._executor.send_signal(kernel.agent_id, kernel.id, epoch=self._epoch, signal=signal)
        except AliquotError as error:
            log.warning("%s on agent %s did not get signal %d: %s", kernel.id, kernel.agent_id, signal, error.message)

    async def _forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        with suppress(AliquotError):  # what it tells when it joins again is forgotten then
            await self._executor.forget(agent_id, kernel_ids)

    def _spawn(self, agent_id: AgentId, work: Coroutine[Any, Any, None]) -> None:
        with logging_with(agent_id=agent_id):
            task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an order failed", exc_info=error)
