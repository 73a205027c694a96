"""Dispatch: sends orders and stops to agents in the background. Reconciliation repeats what an agent missed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from aliquot.service.lifecycle.launch_orders import AppTokens
from aliquot.service.metrics.log_context import logging_with
from aliquot.service.ports import Executor
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.cluster.workspaces import WorkspaceFault
from aliquot_schema.errors import AliquotError, Unavailable
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.resources.leases import Kernel

log: Final = logging.getLogger("aliquot.dispatch")


class Dispatch:
    """Sends messages as background tasks; an unreachable agent is logged, and is no error."""

    def __init__(
        self,
        executor: Executor,
        *,
        epoch: int,
        grace_ms: int,
        app_tokens: AppTokens | None = None,
        filled: Callable[[Sequence[LaunchOrder]], Awaitable[Sequence[LaunchOrder]]] | None = None,
        bring: Callable[[Executor, AgentId, LaunchOrder], Awaitable[WorkspaceFault | None]] | None = None,
        is_awaited: Callable[[KernelId], bool] | None = None,
    ) -> None:
        """
        Args:
            grace_ms: milliseconds between SIGTERM and SIGKILL, for stops and for limits that the agent enforces.
            app_tokens: adds the tokens of apps to orders; None = they get none.
            filled: adds the values of secrets to orders just before sending, so that they do not stay in memory.
            bring: brings an order's workspace to its agent before the order is sent, or returns why it will not come;
                None = there are no workspaces.
            is_awaited: whether a kernel is still to start once its workspace is there; None = it is.
        """
        self._executor = executor
        self._epoch = epoch
        self._grace_ms = grace_ms
        self._filled = filled
        self._bring = bring
        self._is_awaited = is_awaited
        self._app_tokens = app_tokens
        self._tasks: set[asyncio.Task[None]] = set()
        self._bringing: dict[KernelId, asyncio.Task[None]] = {}
        self._repeated: dict[KernelId, tuple[AgentId, LaunchOrder]] = {}
        """Orders that were sent again meanwhile; they follow."""

    def launch(self, orders: Mapping[AgentId, Sequence[LaunchOrder]]) -> None:
        """Send orders with the configured grace, to all agents concurrently."""
        for agent_id, batch in orders.items():
            graced = [replace(order, grace_ms=self._grace_ms) for order in batch]
            # Orders that wait for a workspace hold up no others.
            ready = [order for order in graced if order.workspace is None]
            if ready:
                self._spawn(agent_id, self._launch(agent_id, ready))
            for order in graced:
                if order.workspace is not None:
                    self._launch_with_workspace(agent_id, order)

    def is_bringing(self, kernel_id: KernelId) -> bool:
        """Whether the order of a kernel waits for its workspace, which may take long: its agent does not know it."""
        return kernel_id in self._bringing

    def stop(self, kernels: Iterable[Kernel], *, grace_ms: int | None = None) -> None:
        """Stop kernels.

        Args:
            grace_ms: milliseconds between SIGTERM and SIGKILL; None = the configured grace.
        """
        for kernel in kernels:
            grace = self._grace_ms if grace_ms is None else grace_ms
            self._spawn(kernel.agent_id, self._stop(kernel.agent_id, kernel.id, grace_ms=grace))

    def stop_orphans(self, agent_id: AgentId, kernel_ids: Iterable[KernelId]) -> None:
        """Stop kernels that have no lease in this cluster, with the configured grace."""
        for kernel_id in kernel_ids:
            self._spawn(agent_id, self._stop(agent_id, kernel_id, grace_ms=self._grace_ms))

    def forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        """Acknowledge kernels whose end is durable, so that the agent stops reporting them."""
        if kernel_ids:
            self._spawn(agent_id, self._forget(agent_id, kernel_ids))

    def send_signal(self, kernels: Iterable[Kernel], signal: int) -> None:
        """Send a signal to the main processes of kernels."""
        for kernel in kernels:
            self._spawn(kernel.agent_id, self._send_signal(kernel, signal))

    def set_limit(self, kernels: Iterable[Kernel], *, time_limit_ms: int) -> None:
        """Change the time limit of running kernels."""
        for kernel in kernels:
            self._spawn(kernel.agent_id, self._set_limit(kernel, time_limit_ms))

    async def close(self) -> None:
        """Wait for messages under way, without workspaces: the next leader brings what is missing of them."""
        self._repeated.clear()
        for task in self._bringing.values():
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _launch_with_workspace(self, agent_id: AgentId, order: LaunchOrder) -> None:
        """Send an order that may be repeated while its workspace is still brought."""
        kernel_id = order.kernel_id
        if kernel_id in self._bringing:
            self._repeated[kernel_id] = agent_id, order
            return
        task = self._bringing[kernel_id] = self._spawn(agent_id, self._bring_and_launch(agent_id, order))
        task.add_done_callback(lambda _: self._launched(kernel_id))

    def _launched(self, kernel_id: KernelId) -> None:
        del self._bringing[kernel_id]
        repeated = self._repeated.pop(kernel_id, None)
        if repeated is not None:
            self._launch_with_workspace(*repeated)

    async def _bring_and_launch(self, agent_id: AgentId, order: LaunchOrder) -> None:
        try:
            fault = None if self._bring is None else await self._bring(self._executor, agent_id, order)
        except Unavailable as error:
            log.warning("agent %s did not receive the order of %s: %s", agent_id, order.kernel_id, error.message)
            return
        await self._launch(agent_id, [replace(order, workspace_fault=fault)])

    async def _launch(self, agent_id: AgentId, orders: Sequence[LaunchOrder]) -> None:
        try:
            if self._filled is not None and any(order.secrets for order in orders):
                orders = await self._filled(orders)
            if self._app_tokens is not None:
                orders = self._app_tokens.with_tokens(orders)
            # Bringing a workspace takes long, and so a kernel may have been stopped, and even forgotten, meanwhile.
            orders = [order for order in orders if order.workspace is None or self._may_start(order.kernel_id)]
            if orders:
                await self._executor.launch(agent_id, orders)
        except Unavailable as error:
            log.warning("agent %s did not receive %d orders: %s", agent_id, len(orders), error.message)

    def _may_start(self, kernel_id: KernelId) -> bool:
        return self._is_awaited is None or self._is_awaited(kernel_id)

    async def _stop(self, agent_id: AgentId, kernel_id: KernelId, *, grace_ms: int) -> None:
        try:
            await self._executor.stop(agent_id, kernel_id, epoch=self._epoch, grace_ms=grace_ms)
        except AliquotError as error:
            log.warning("agent %s did not receive the stop of %s: %s", agent_id, kernel_id, error.message)

    async def _send_signal(self, kernel: Kernel, signal: int) -> None:
        try:
            await self._executor.send_signal(kernel.agent_id, kernel.id, epoch=self._epoch, signal=signal)
        except AliquotError as error:
            log.warning(
                "%s on agent %s did not receive signal %d: %s", kernel.id, kernel.agent_id, signal, error.message
            )

    async def _set_limit(self, kernel: Kernel, time_limit_ms: int) -> None:
        agent_id, epoch = kernel.agent_id, self._epoch
        try:
            await self._executor.set_limit(agent_id, kernel.id, epoch=epoch, time_limit_ms=time_limit_ms)
        except AliquotError as error:
            log.warning("agent %s did not receive the time limit of %s: %s", agent_id, kernel.id, error.message)

    async def _forget(self, agent_id: AgentId, kernel_ids: Sequence[KernelId]) -> None:
        with suppress(AliquotError):  # repeated when the agent reports them after it rejoins
            await self._executor.forget(agent_id, kernel_ids)

    def _spawn(self, agent_id: AgentId, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        with logging_with(agent_id=agent_id):
            task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("sending an order failed", exc_info=error)
